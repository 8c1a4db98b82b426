-- +goose Up
ALTER TABLE lease ADD COLUMN gang_id TEXT NOT NULL DEFAULT '';
ALTER TABLE lease ADD COLUMN gang_waits BIGINT NOT NULL DEFAULT 0; -- 1: nothing is charged until all of the gang run
CREATE INDEX lease_gang ON lease (gang_id, id) WHERE gang_id <> '';

-- +goose Down
DROP INDEX lease_gang;
ALTER TABLE lease DROP COLUMN gang_waits;
ALTER TABLE lease DROP COLUMN gang_id;
