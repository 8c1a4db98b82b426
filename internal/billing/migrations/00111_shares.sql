-- +goose Up
-- A coupon of a share pays that of each use, in millionths; 0: all of it. A grant for
-- a GPU model pays for leases of it only; empty: for all.
ALTER TABLE billing_grants ADD COLUMN share_ppm BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_grants ADD COLUMN gpu_model TEXT NOT NULL DEFAULT '';
-- What the share was taken of.
ALTER TABLE billing_draws ADD COLUMN base BIGINT NOT NULL DEFAULT 0;
-- What coupons of a share paid of each charge. Never changed.
CREATE TABLE billing_shares (
    grant_id  TEXT   NOT NULL REFERENCES billing_grants (id),
    number    BIGINT NOT NULL,  -- 1, 2, 3…
    charge_id TEXT   NOT NULL REFERENCES billing_charges (id),
    base      BIGINT NOT NULL,  -- less than 0: a correction
    amount    BIGINT NOT NULL,  -- less than 0: given back
    PRIMARY KEY (grant_id, number)
);
CREATE INDEX billing_shares_charge ON billing_shares (charge_id);

-- +goose Down
DROP TABLE billing_shares;
ALTER TABLE billing_draws DROP COLUMN base;
ALTER TABLE billing_grants DROP COLUMN gpu_model;
ALTER TABLE billing_grants DROP COLUMN share_ppm;
