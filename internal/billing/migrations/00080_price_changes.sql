-- +goose Up
-- Prices of running leases that their renters have agreed to.
CREATE TABLE billing_price_changes (
    lease_id    TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    from_at     BIGINT NOT NULL,
    rate        BIGINT NOT NULL, -- of compute, an hour of the bundle
    proposal_id TEXT   NOT NULL,
    agreed_by   TEXT   NOT NULL,
    agreed_at   BIGINT NOT NULL,
    PRIMARY KEY (lease_id, from_at)
);
-- Whether there are any, so that leases without cost no look at them.
ALTER TABLE billing_leases ADD COLUMN repriced BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE billing_leases DROP COLUMN repriced;
DROP TABLE billing_price_changes;
