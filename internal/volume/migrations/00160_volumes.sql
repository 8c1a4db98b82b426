-- +goose Up
CREATE TABLE volume (
    id          TEXT   NOT NULL PRIMARY KEY,
    account_id  TEXT   NOT NULL,
    user_id     TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    host_id     TEXT   NOT NULL,
    provider_id TEXT   NOT NULL,
    region      TEXT   NOT NULL,
    zone        TEXT   NOT NULL,
    size_gib    BIGINT NOT NULL,
    simulated   BIGINT NOT NULL,
    price       TEXT   NOT NULL,  -- JSON: the quote that it is billed by
    state       TEXT   NOT NULL,
    code        TEXT   NOT NULL,
    message     TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    ready_at    BIGINT NOT NULL,  -- 0: its host has not made it
    ended_at    BIGINT NOT NULL   -- 0: it goes on
);
CREATE INDEX volume_open ON volume (id) WHERE ended_at = 0;
CREATE INDEX volume_account ON volume (account_id, id);
CREATE UNIQUE INDEX volume_name ON volume (account_id, name) WHERE state IN ('creating', 'available');

-- The rows are the reference count. Two that write at once are impossible, whoever asks.
CREATE TABLE volume_attachment (
    volume_id   TEXT   NOT NULL REFERENCES volume (id),
    lease_id    TEXT   NOT NULL,
    path        TEXT   NOT NULL,
    read_only   BIGINT NOT NULL,
    attached_at BIGINT NOT NULL,
    PRIMARY KEY (volume_id, lease_id)
);
CREATE UNIQUE INDEX volume_writer ON volume_attachment (volume_id) WHERE read_only = 0;
CREATE UNIQUE INDEX volume_path ON volume_attachment (lease_id, path);

-- +goose Down
DROP TABLE volume_attachment;
DROP TABLE volume;
