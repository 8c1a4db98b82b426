-- +goose Up
-- Locked by every start: limits count over all accounts.
CREATE TABLE trial_turn (
    id BIGINT NOT NULL PRIMARY KEY
);
INSERT INTO trial_turn (id) VALUES (1);
CREATE TABLE trial_contacts (
    user_id     TEXT   NOT NULL PRIMARY KEY,
    account_id  TEXT   NOT NULL,
    contact     TEXT   NOT NULL,  -- keyed digest of the address that was proven
    code        TEXT   NOT NULL,  -- keyed digest; empty: none waits
    sent_at     BIGINT NOT NULL,
    sends       BIGINT NOT NULL,  -- since day_from
    day_from    BIGINT NOT NULL,
    tries       BIGINT NOT NULL,  -- of the code
    verified_at BIGINT NOT NULL,  -- 0: not yet
    verified_by TEXT   NOT NULL   -- the operator, if it was one
);
CREATE TABLE trial_starts (
    account_id TEXT   NOT NULL PRIMARY KEY,
    grant_id   TEXT   NOT NULL,
    contact    TEXT   NOT NULL UNIQUE,
    device     TEXT   NOT NULL UNIQUE,
    network    TEXT   NOT NULL,  -- emptied when it does not count any more
    started_at BIGINT NOT NULL
);
CREATE INDEX trial_starts_network ON trial_starts (network, started_at);

-- +goose Down
DROP TABLE trial_starts;
DROP TABLE trial_contacts;
DROP TABLE trial_turn;
