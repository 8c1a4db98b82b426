-- +goose Up
CREATE TABLE payments (
    id                TEXT   NOT NULL PRIMARY KEY,
    account_id        TEXT   NOT NULL,
    provider          TEXT   NOT NULL,
    currency          TEXT   NOT NULL,
    amount            BIGINT NOT NULL CHECK (amount > 0), -- what was asked for
    state             TEXT   NOT NULL,
    request_key       TEXT   NOT NULL UNIQUE,
    -- What the provider's side of it is called. claim has it once for each provider,
    -- or once for each account with a bank, and the payment's own identifier while
    -- there is none: nothing is credited twice.
    ref               TEXT   NOT NULL,
    claim             TEXT   NOT NULL UNIQUE,
    charge_ref        TEXT   NOT NULL, -- what refunds and disputes call it
    checkout_url      TEXT   NOT NULL,
    received_minor    BIGINT NOT NULL, -- in the minor unit of received_currency, as the provider said
    received_currency TEXT   NOT NULL,
    credited          BIGINT NOT NULL,
    refunded          BIGINT NOT NULL, -- posted out for refunds, those under way included
    reason            TEXT   NOT NULL, -- why it failed, was reversed or put aside
    attention         TEXT   NOT NULL, -- what an operator should look at; empty: nothing
    created_by        TEXT   NOT NULL,
    created_at        BIGINT NOT NULL,
    changed_at        BIGINT NOT NULL,
    expires_at        BIGINT NOT NULL,
    next_at           BIGINT NOT NULL, -- when to look at it again; 0: never
    tries             BIGINT NOT NULL
);
CREATE INDEX payments_account ON payments (account_id, id);
CREATE INDEX payments_next ON payments (next_at);
CREATE INDEX payments_charge ON payments (provider, charge_ref);

CREATE TABLE payment_refunds (
    id          TEXT   NOT NULL PRIMARY KEY,
    payment_id  TEXT   NOT NULL,
    amount      BIGINT NOT NULL CHECK (amount > 0),
    state       TEXT   NOT NULL,
    ref         TEXT   NOT NULL, -- the provider's
    request_key TEXT   NOT NULL UNIQUE,
    reason      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL,
    next_at     BIGINT NOT NULL
);
CREATE INDEX payment_refunds_payment ON payment_refunds (payment_id, id);
CREATE INDEX payment_refunds_next ON payment_refunds (next_at);

CREATE TABLE payment_disputes (
    provider   TEXT   NOT NULL,
    ref        TEXT   NOT NULL,
    payment_id TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    state      TEXT   NOT NULL, -- open, lost, won or aside
    at         BIGINT NOT NULL,
    PRIMARY KEY (provider, ref)
);

-- What was heard of payments that are not known yet: it may be early, or another
-- shop's at the same provider.
CREATE TABLE payment_early (
    provider    TEXT   NOT NULL,
    charge_ref  TEXT   NOT NULL,
    what        TEXT   NOT NULL,
    observation TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    PRIMARY KEY (provider, charge_ref, what)
);

-- Up to when a provider's own list of events was read.
CREATE TABLE payment_cursors (
    provider TEXT   NOT NULL PRIMARY KEY,
    until_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE payment_cursors;
DROP TABLE payment_early;
DROP TABLE payment_disputes;
DROP TABLE payment_refunds;
DROP TABLE payments;
