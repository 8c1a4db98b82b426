-- +goose Up
-- What was taken from a provider that is paid in another currency than the account
-- pays: clawback and penalty together, in that currency. Empty: in the account's.
ALTER TABLE sla_months ADD COLUMN taken BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sla_months ADD COLUMN taken_currency TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE sla_months DROP COLUMN taken_currency;
ALTER TABLE sla_months DROP COLUMN taken;
