-- +goose Up
-- GPUs of a host that are held for an account, whether a lease has them or not.
CREATE TABLE fleet_holdings (
    id         TEXT   NOT NULL PRIMARY KEY,
    host_id    TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    gpu_model  TEXT   NOT NULL,
    gpu_count  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    CHECK (gpu_count > 0)
);
CREATE INDEX fleet_holdings_host ON fleet_holdings (host_id);
-- Whose held GPUs a lease has; empty: it has none of what is held.
ALTER TABLE fleet_reservations ADD COLUMN account_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE fleet_reservations DROP COLUMN account_id;
DROP TABLE fleet_holdings;
