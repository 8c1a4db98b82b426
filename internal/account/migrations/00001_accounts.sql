-- +goose Up
CREATE TABLE accounts (
  id         TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  currency   TEXT NOT NULL,
  time_zone  TEXT NOT NULL,
  max_leases BIGINT NOT NULL,
  max_gpus   BIGINT NOT NULL,
  suspended  BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL
);

CREATE TABLE users (
  id            TEXT PRIMARY KEY,
  account_id    TEXT NOT NULL REFERENCES accounts (id),
  email         TEXT NOT NULL UNIQUE, -- lower case
  name          TEXT NOT NULL,
  role          TEXT NOT NULL,
  operator      BIGINT NOT NULL DEFAULT 0,
  disabled      BIGINT NOT NULL DEFAULT 0,
  password_hash TEXT NOT NULL,        -- argon2id, PHC string
  totp_secret   TEXT NOT NULL DEFAULT '', -- sealed; empty: never enrolled
  totp_enabled  BIGINT NOT NULL DEFAULT 0,
  totp_step     BIGINT NOT NULL DEFAULT 0, -- the last step used: a code works once
  created_at    BIGINT NOT NULL
);
CREATE INDEX users_account ON users (account_id, id);

CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  hash       TEXT NOT NULL UNIQUE, -- SHA-256 of the token, hex
  user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  ip         TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id, id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE api_keys (
  id           TEXT PRIMARY KEY,
  hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the key, hex
  account_id   TEXT NOT NULL REFERENCES accounts (id),
  user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  hint         TEXT NOT NULL, -- the key's last characters, to tell keys apart
  scopes       TEXT NOT NULL, -- JSON list of actions; "null": all of the user's
  created_at   BIGINT NOT NULL,
  expires_at   BIGINT NOT NULL, -- 0: never
  last_used_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX api_keys_account ON api_keys (account_id, id);

CREATE TABLE ssh_keys (
  id          TEXT PRIMARY KEY,
  account_id  TEXT NOT NULL REFERENCES accounts (id),
  user_id     TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name        TEXT NOT NULL,
  fingerprint TEXT NOT NULL, -- SHA256:…
  public_key  TEXT NOT NULL, -- type and base64, without a comment
  created_at  BIGINT NOT NULL,
  UNIQUE (account_id, fingerprint)
);
CREATE INDEX ssh_keys_fingerprint ON ssh_keys (fingerprint);

CREATE TABLE audit (
  id         TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  user_id    TEXT NOT NULL,
  key_id     TEXT NOT NULL,
  action     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  detail     TEXT NOT NULL, -- JSON
  ip         TEXT NOT NULL,
  request_id TEXT NOT NULL,
  at         BIGINT NOT NULL
);
CREATE INDEX audit_account ON audit (account_id, id);

-- +goose Down
DROP TABLE audit;
DROP TABLE ssh_keys;
DROP TABLE api_keys;
DROP TABLE sessions;
DROP TABLE users;
DROP TABLE accounts;
