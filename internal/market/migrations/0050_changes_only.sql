-- +goose Up
-- Rounds that change nothing write nothing; when the next is due is known by whoever
-- holds them, and nobody read it.
ALTER TABLE market DROP COLUMN next_at;

-- +goose Down
ALTER TABLE market ADD COLUMN next_at BIGINT NOT NULL DEFAULT 0;
