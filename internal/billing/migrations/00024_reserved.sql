-- +goose Up
-- What a lease has, for reservations to be applied to; empty of leases begun before.
ALTER TABLE billing_leases ADD COLUMN gpu_model TEXT NOT NULL DEFAULT '';
ALTER TABLE billing_leases ADD COLUMN zone TEXT NOT NULL DEFAULT '';
ALTER TABLE billing_leases ADD COLUMN gpu_count BIGINT NOT NULL DEFAULT 0;
-- 1: the account has or had reservations.
ALTER TABLE billing_accounts ADD COLUMN reserves BIGINT NOT NULL DEFAULT 0;
-- When reservations were applied last.
ALTER TABLE billing_accounts ADD COLUMN applied_at BIGINT NOT NULL DEFAULT 0;
-- Terms of reservations; each has a row in billing_leases too, as it is used by the
-- hour, whether anybody runs there or not.
CREATE TABLE billing_reserved (
    lease_id TEXT   NOT NULL PRIMARY KEY REFERENCES billing_leases (lease_id),
    terms    TEXT   NOT NULL,  -- JSON, never changed
    end_at   BIGINT NOT NULL   -- of the last clock hour; before the terms' if it was ended early
);
-- Which time of leases reservations pay for, as it was applied last.
CREATE TABLE billing_covered (
    lease_id TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    from_at  BIGINT NOT NULL,
    until_at BIGINT NOT NULL,
    PRIMARY KEY (lease_id, from_at),
    CHECK (until_at > from_at)
);
-- The sign of life of a running lease that the application relied on.
CREATE TABLE billing_applied (
    lease_id TEXT   NOT NULL PRIMARY KEY REFERENCES billing_leases (lease_id),
    seen_at  BIGINT NOT NULL
);

-- +goose Down
DROP TABLE billing_applied;
DROP TABLE billing_covered;
DROP TABLE billing_reserved;
ALTER TABLE billing_accounts DROP COLUMN applied_at;
ALTER TABLE billing_accounts DROP COLUMN reserves;
ALTER TABLE billing_leases DROP COLUMN gpu_count;
ALTER TABLE billing_leases DROP COLUMN zone;
ALTER TABLE billing_leases DROP COLUMN gpu_model;
