-- +goose Up
-- Providers ask for what was earned in a time.
CREATE INDEX billing_charges_earned ON billing_charges (provider_id, to_at);

-- +goose Down
DROP INDEX billing_charges_earned;
