-- +goose Up
-- What was used of each lease and is in billing_usage: microseconds that it ran
-- (or, of a reservation, was held) and that its disk was kept, and bytes.
ALTER TABLE billing_leases ADD COLUMN measured_compute BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_leases ADD COLUMN measured_storage BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_leases ADD COLUMN measured_egress BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_leases ADD COLUMN measured_at BIGINT NOT NULL DEFAULT 0;
-- Use of leases, in differences. It is apart from billing_charges, as what months or
-- reservations paid for is used and not charged.
CREATE TABLE billing_usage (
    id         TEXT   PRIMARY KEY,
    lease_id   TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    account_id TEXT   NOT NULL,
    meter      TEXT   NOT NULL,
    amount     BIGINT NOT NULL, -- microseconds or bytes; negative: a correction
    factor     BIGINT NOT NULL, -- GiB of the disk; of other meters 1
    plan       TEXT   NOT NULL,
    simulated  BIGINT NOT NULL,
    from_at    BIGINT NOT NULL,
    to_at      BIGINT NOT NULL,
    -- The place in the order of reading, given after the writing transaction ended,
    -- so that nothing comes to be before what was read; 0: none yet.
    number     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX billing_usage_order ON billing_usage (number);
CREATE INDEX billing_usage_account ON billing_usage (account_id, number);
CREATE INDEX billing_usage_lease ON billing_usage (lease_id, number);
-- One row: the last number that was given.
CREATE TABLE billing_usage_reading (
    one  BIGINT PRIMARY KEY CHECK (one = 1),
    last BIGINT NOT NULL
);
INSERT INTO billing_usage_reading VALUES (1, 0);

-- +goose Down
DROP TABLE billing_usage_reading;
DROP TABLE billing_usage;
ALTER TABLE billing_leases DROP COLUMN measured_at;
ALTER TABLE billing_leases DROP COLUMN measured_egress;
ALTER TABLE billing_leases DROP COLUMN measured_storage;
ALTER TABLE billing_leases DROP COLUMN measured_compute;
