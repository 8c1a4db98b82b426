-- +goose Up
-- The last step before its end at which the account was told; 0: none was reached.
ALTER TABLE reservation ADD COLUMN warned_seconds BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE reservation DROP COLUMN warned_seconds;
