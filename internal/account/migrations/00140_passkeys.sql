-- +goose Up
ALTER TABLE users ADD COLUMN passkey_only BIGINT NOT NULL DEFAULT 0; -- the password does not sign in
CREATE TABLE passkeys (
    id            TEXT   PRIMARY KEY,
    user_id       TEXT   NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    credential_id TEXT   NOT NULL UNIQUE, -- base64url
    name          TEXT   NOT NULL,
    credential    TEXT   NOT NULL,        -- JSON: public key, counter, flags
    created_at    BIGINT NOT NULL,
    last_used_at  BIGINT NOT NULL         -- 0: never
);
CREATE INDEX passkeys_user ON passkeys (user_id, id);
-- What an authenticator was asked; each is answered once.
CREATE TABLE passkey_ceremonies (
    id         TEXT   PRIMARY KEY,
    user_id    TEXT   NOT NULL,           -- who adds a passkey; empty: somebody signs in
    data       TEXT   NOT NULL,           -- JSON: challenge and terms
    expires_at BIGINT NOT NULL
);
CREATE INDEX passkey_ceremonies_expiry ON passkey_ceremonies (expires_at);

-- +goose Down
DROP TABLE passkey_ceremonies;
DROP TABLE passkeys;
ALTER TABLE users DROP COLUMN passkey_only;
