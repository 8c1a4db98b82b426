-- +goose Up
CREATE TABLE sign_ups (
    contact  TEXT   NOT NULL PRIMARY KEY,  -- keyed digest of the address
    code     TEXT   NOT NULL,              -- keyed digest; empty: none waits
    sent_at  BIGINT NOT NULL,
    sends    BIGINT NOT NULL,              -- since day_from
    day_from BIGINT NOT NULL,
    tries    BIGINT NOT NULL               -- of the code
);
CREATE INDEX sign_ups_sent ON sign_ups (sent_at);
CREATE TABLE invitations (
    id         TEXT   NOT NULL PRIMARY KEY,
    email      TEXT   NOT NULL UNIQUE,
    invited_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL             -- 0: not yet
);

-- +goose Down
DROP TABLE invitations;
DROP TABLE sign_ups;
