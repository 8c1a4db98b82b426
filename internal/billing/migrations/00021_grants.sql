-- +goose Up
-- Money that the operator gives for use.
CREATE TABLE billing_grants (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    kind          TEXT   NOT NULL,  -- promotion, trial or coupon
    cap           BIGINT NOT NULL,
    spent         BIGINT NOT NULL,
    meters        TEXT   NOT NULL,  -- JSON; null: all
    valid_seconds BIGINT NOT NULL,  -- from the first use on; 0: until expires_at
    active_from   BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,  -- 0: not used yet
    expired       BIGINT NOT NULL,  -- what was lost is posted
    reference     TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    CHECK (spent >= 0 AND spent <= cap)
);
CREATE INDEX billing_grants_account ON billing_grants (account_id, id);
CREATE INDEX billing_grants_expiry ON billing_grants (expired, expires_at);
-- A second trial would be a way to rent for nothing.
CREATE UNIQUE INDEX billing_grants_trial ON billing_grants (account_id) WHERE kind = 'trial';
-- What each grant has paid of each lease.
CREATE TABLE billing_draws (
    grant_id TEXT   NOT NULL REFERENCES billing_grants (id),
    lease_id TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    amount   BIGINT NOT NULL,
    PRIMARY KEY (grant_id, lease_id),
    CHECK (amount >= 0)
);
CREATE INDEX billing_draws_lease ON billing_draws (lease_id);

-- +goose Down
DROP TABLE billing_draws;
DROP TABLE billing_grants;
