-- +goose Up
-- Of what is kept and never runs, such as a volume: its storage is charged without a first run.
ALTER TABLE billing_leases ADD COLUMN kept BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE billing_leases DROP COLUMN kept;
