-- +goose Up
-- One row for each provider and currency: who makes a payout locks it, so that two
-- replicas do not pay the same money.
CREATE TABLE earning_payees (
    account_id TEXT NOT NULL,
    currency   TEXT NOT NULL,
    PRIMARY KEY (account_id, currency)
);
CREATE TABLE earning_payouts (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL,
    currency   TEXT   NOT NULL,
    amount     BIGINT NOT NULL CHECK (amount > 0),
    batch      TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    reference  TEXT   NOT NULL, -- the bank's, of the payment
    reason     TEXT   NOT NULL, -- why it failed, was declined or came back
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    UNIQUE (account_id, currency, batch)
);
CREATE INDEX earning_payouts_state ON earning_payouts (state, id);

-- +goose Down
DROP TABLE earning_payouts;
DROP TABLE earning_payees;
