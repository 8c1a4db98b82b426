-- +goose Up
-- Until when, as far as is known, a lease waits for GPUs that the spot market leaves.
ALTER TABLE lease ADD COLUMN waits_until BIGINT NOT NULL DEFAULT 0;
-- Why its place is about to be taken away.
ALTER TABLE lease ADD COLUMN interrupt_reason TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE lease DROP COLUMN interrupt_reason;
ALTER TABLE lease DROP COLUMN waits_until;
