-- +goose Up
-- The keys of the cloud's authority, sealed with the master key, so that every
-- replica is the same cloud to hosts, gateways and renters.
CREATE TABLE server_keys (
  name   TEXT PRIMARY KEY, -- of the file in data_dir/authority
  sealed TEXT NOT NULL     -- base64
);

-- +goose Down
DROP TABLE server_keys;
