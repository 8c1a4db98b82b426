-- +goose Up
ALTER TABLE lease ADD COLUMN gang_id TEXT NOT NULL DEFAULT '';
ALTER TABLE lease ADD COLUMN gang_waits BIGINT NOT NULL DEFAULT 0; -- 1: nothing is charged until all of the gang run

-- +goose Down
ALTER TABLE lease DROP COLUMN gang_waits;
ALTER TABLE lease DROP COLUMN gang_id;
