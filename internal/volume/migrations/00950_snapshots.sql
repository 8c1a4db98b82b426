-- +goose Up
CREATE TABLE volume_snapshot (
    id             TEXT   NOT NULL PRIMARY KEY,
    account_id     TEXT   NOT NULL,
    user_id        TEXT   NOT NULL,
    name           TEXT   NOT NULL,
    volume_id      TEXT   NOT NULL REFERENCES volume (id),
    host_id        TEXT   NOT NULL,  -- that the volume was on
    region         TEXT   NOT NULL,
    zone           TEXT   NOT NULL,
    size_gib       BIGINT NOT NULL,  -- of the volume
    simulated      BIGINT NOT NULL,
    kind           TEXT   NOT NULL,  -- manual, scheduled, passing
    state          TEXT   NOT NULL,
    code           TEXT   NOT NULL,
    message        TEXT   NOT NULL,
    upload_id      TEXT   NOT NULL,  -- of the upload in parts; empty: none is begun
    stored_bytes   BIGINT NOT NULL,  -- of the object, so far
    object_sha256  TEXT   NOT NULL,
    content_sha256 TEXT   NOT NULL,
    price          TEXT   NOT NULL,  -- JSON: the quote that it is billed by; empty: it is not billed
    created_at     BIGINT NOT NULL,
    ready_at       BIGINT NOT NULL,  -- 0: it is not complete
    ended_at       BIGINT NOT NULL   -- 0: it goes on
);
CREATE INDEX volume_snapshot_open ON volume_snapshot (id) WHERE state IN ('copying', 'failing', 'deleting');
CREATE INDEX volume_snapshot_account ON volume_snapshot (account_id, id);
CREATE INDEX volume_snapshot_of ON volume_snapshot (volume_id, id);

ALTER TABLE volume ADD COLUMN snapshot_id TEXT NOT NULL DEFAULT '';   -- that it is made of
ALTER TABLE volume ADD COLUMN replaces TEXT NOT NULL DEFAULT '';      -- the volume whose place it takes when it is made
ALTER TABLE volume ADD COLUMN moving_to TEXT NOT NULL DEFAULT '';     -- the volume that takes its place
ALTER TABLE volume ADD COLUMN backup_hours BIGINT NOT NULL DEFAULT 0; -- between backups; 0: none
ALTER TABLE volume ADD COLUMN backup_keep BIGINT NOT NULL DEFAULT 0;
ALTER TABLE volume ADD COLUMN backup_next BIGINT NOT NULL DEFAULT 0;
CREATE INDEX volume_backup ON volume (backup_next) WHERE backup_hours > 0 AND ended_at = 0;

-- +goose Down
DROP INDEX volume_backup;
ALTER TABLE volume DROP COLUMN backup_next;
ALTER TABLE volume DROP COLUMN backup_keep;
ALTER TABLE volume DROP COLUMN backup_hours;
ALTER TABLE volume DROP COLUMN moving_to;
ALTER TABLE volume DROP COLUMN replaces;
ALTER TABLE volume DROP COLUMN snapshot_id;
DROP TABLE volume_snapshot;
