-- +goose Up
-- The most bytes that the host has ever claimed; those beyond egress_bytes were
-- not paid for when they were claimed, and are never charged.
ALTER TABLE billing_leases ADD COLUMN egress_claimed BIGINT NOT NULL DEFAULT 0;
UPDATE billing_leases SET egress_claimed = egress_bytes;

-- +goose Down
ALTER TABLE billing_leases DROP COLUMN egress_claimed;
