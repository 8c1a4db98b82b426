-- +goose Up
-- What a spot lease costs an hour from a moment on, until the next.
CREATE TABLE billing_rates (
    lease_id TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    from_at  BIGINT NOT NULL,
    rate     BIGINT NOT NULL,
    PRIMARY KEY (lease_id, from_at)
);
-- 1: the platform ended the run, not its renter.
ALTER TABLE billing_intervals ADD COLUMN evicted BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE billing_intervals DROP COLUMN evicted;
DROP TABLE billing_rates;
