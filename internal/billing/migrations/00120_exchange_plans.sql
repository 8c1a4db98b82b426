-- +goose Up
-- What is paid by spot rates, and in advance, in the currency of the provider where
-- that is another than the account's; 0: it is not.
ALTER TABLE billing_rates ADD COLUMN listed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_prepayments ADD COLUMN listed BIGINT NOT NULL DEFAULT 0;
-- The price of a month and what is paid of the term in force, likewise.
ALTER TABLE billing_monthly ADD COLUMN listed_per_month BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_monthly ADD COLUMN listed_paid BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE billing_monthly DROP COLUMN listed_paid;
ALTER TABLE billing_monthly DROP COLUMN listed_per_month;
ALTER TABLE billing_prepayments DROP COLUMN listed;
ALTER TABLE billing_rates DROP COLUMN listed;
