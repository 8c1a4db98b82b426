-- +goose Up
-- Other prices that providers have proposed for leases that run.
CREATE TABLE lease_price_change (
    id           TEXT   NOT NULL PRIMARY KEY,
    lease_id     TEXT   NOT NULL REFERENCES lease (id),
    account_id   TEXT   NOT NULL,
    provider_id  TEXT   NOT NULL,
    host_id      TEXT   NOT NULL,
    lease_name   TEXT   NOT NULL,
    currency     TEXT   NOT NULL,
    old_rate     BIGINT NOT NULL, -- an hour of the bundle
    new_rate     BIGINT NOT NULL,
    simulated    BIGINT NOT NULL,
    state        TEXT   NOT NULL,
    effective_at BIGINT NOT NULL,
    answer_by    BIGINT NOT NULL,
    answered_by  TEXT   NOT NULL,
    answered_at  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE INDEX lease_price_change_account ON lease_price_change (account_id, id);
CREATE INDEX lease_price_change_host ON lease_price_change (host_id, id);
CREATE UNIQUE INDEX lease_price_change_open ON lease_price_change (lease_id) WHERE state = 'proposed';

-- +goose Down
DROP TABLE lease_price_change;
