-- +goose Up
-- What one unit of a currency is worth in another. Nothing is edited: who corrects a
-- rate enters another.
CREATE TABLE billing_exchange_rates (
    id            TEXT   NOT NULL PRIMARY KEY,
    from_currency TEXT   NOT NULL,
    to_currency   TEXT   NOT NULL,
    rate          BIGINT NOT NULL,  -- billionths of to_currency
    source        TEXT   NOT NULL,
    valid_from    BIGINT NOT NULL,
    valid_until   BIGINT NOT NULL,  -- not in its time
    entered_by    TEXT   NOT NULL,
    entered_at    BIGINT NOT NULL,
    request       TEXT   NOT NULL   -- digest of the idempotency key; empty: none
);
CREATE INDEX billing_exchange_rates_pair ON billing_exchange_rates (from_currency, to_currency, valid_from);
-- Where the provider is paid by other prices than the account pays: what it comes to
-- by the listed ones, and the provider's part, in the currency that it is paid in.
-- Empty: the provider's part is that of the amount.
ALTER TABLE billing_charges ADD COLUMN listed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_charges ADD COLUMN earned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_charges ADD COLUMN earned_currency TEXT NOT NULL DEFAULT '';
-- The rate that the lease's quote was exchanged by; empty: it was not.
ALTER TABLE billing_leases ADD COLUMN exchange_rate_id TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE billing_leases DROP COLUMN exchange_rate_id;
ALTER TABLE billing_charges DROP COLUMN earned_currency;
ALTER TABLE billing_charges DROP COLUMN earned;
ALTER TABLE billing_charges DROP COLUMN listed;
DROP TABLE billing_exchange_rates;
