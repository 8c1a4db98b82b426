-- +goose Up
ALTER TABLE fleet_join_tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'host';

CREATE TABLE fleet_gateways (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    bus_key    TEXT NOT NULL UNIQUE,
    build      TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE fleet_gateways;
ALTER TABLE fleet_join_tokens DROP COLUMN kind;
