-- +goose Up
-- 1: the run before goes on, after a break that was the host's doing.
ALTER TABLE billing_intervals ADD COLUMN resumes BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE billing_intervals DROP COLUMN resumes;
