-- +goose Up
-- What a month's compute takes off. Of those of a currency that were set before a
-- month began, the last one is in force for it. Nothing is edited.
CREATE TABLE billing_volume_tiers (
    id         TEXT   NOT NULL PRIMARY KEY,
    currency   TEXT   NOT NULL,
    tiers      TEXT   NOT NULL,  -- JSON; empty list: nothing is taken off
    set_by     TEXT   NOT NULL,
    set_at     BIGINT NOT NULL
);
-- What was taken off of each lease of a month that is closed. Never changed.
CREATE TABLE billing_volumes (
    charge_id  TEXT   NOT NULL PRIMARY KEY REFERENCES billing_charges (id),
    grant_id   TEXT   NOT NULL REFERENCES billing_grants (id),
    tiers_id   TEXT   NOT NULL REFERENCES billing_volume_tiers (id),
    account_id TEXT   NOT NULL,
    lease_id   TEXT   NOT NULL,
    start_at   BIGINT NOT NULL,  -- of the month
    end_at     BIGINT NOT NULL,
    base       BIGINT NOT NULL,  -- of the lease
    amount     BIGINT NOT NULL,
    UNIQUE (account_id, start_at, lease_id)
);

-- +goose Down
DROP TABLE billing_volumes;
DROP TABLE billing_volume_tiers;
