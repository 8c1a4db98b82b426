-- +goose Up
ALTER TABLE lease ADD COLUMN bid_id TEXT NOT NULL DEFAULT '';
ALTER TABLE lease ADD COLUMN interrupt_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE lease DROP COLUMN interrupt_at;
ALTER TABLE lease DROP COLUMN bid_id;
