-- +goose Up
-- Leases on demand outrank those of the spot market: a GPU that one of these has
-- may be promised to one that waits for it. The primary key is what makes two
-- promises of one GPU impossible.
CREATE TABLE fleet_claims (
    gpu_uuid   TEXT   NOT NULL PRIMARY KEY,
    host_id    TEXT   NOT NULL,
    lease_id   TEXT   NOT NULL, -- that waits
    created_at BIGINT NOT NULL
);
CREATE INDEX fleet_claims_host ON fleet_claims (host_id);
CREATE INDEX fleet_claims_lease ON fleet_claims (lease_id);
ALTER TABLE fleet_reservations ADD COLUMN spot BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE fleet_reservations DROP COLUMN spot;
DROP TABLE fleet_claims;
