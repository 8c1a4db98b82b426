-- +goose Up
CREATE TABLE billing_accounts (
    account_id   TEXT   NOT NULL PRIMARY KEY,
    currency     TEXT   NOT NULL,
    sequence     BIGINT NOT NULL,  -- of postings; makes their keys unique
    exhausted_at BIGINT NOT NULL,  -- 0: there is money
    warned       BIGINT NOT NULL,  -- the shortest warning given, in seconds before the end; 0: none
    grace_warned BIGINT NOT NULL   -- likewise for the end of storage grace
);
CREATE TABLE billing_leases (
    lease_id       TEXT   NOT NULL PRIMARY KEY,
    account_id     TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    provider_id    TEXT   NOT NULL,
    quote          TEXT   NOT NULL,  -- JSON, never changed
    simulated      BIGINT NOT NULL,
    spending_cap   BIGINT NOT NULL,  -- 0: none
    hold           BIGINT NOT NULL,
    egress_bytes   BIGINT NOT NULL,
    posted_compute BIGINT NOT NULL,
    posted_storage BIGINT NOT NULL,
    posted_egress  BIGINT NOT NULL,
    confirmed_at   BIGINT NOT NULL,  -- the last sign of life that a posting relied on
    settled_at     BIGINT NOT NULL,
    begun_at       BIGINT NOT NULL,
    ended_at       BIGINT NOT NULL   -- 0: open
);
CREATE INDEX billing_leases_account ON billing_leases (account_id, ended_at);
CREATE INDEX billing_leases_open ON billing_leases (ended_at, account_id);
CREATE TABLE billing_intervals (
    lease_id    TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    meter       TEXT   NOT NULL,
    number      BIGINT NOT NULL,
    asked_start BIGINT NOT NULL,  -- as asked, to know a repeat
    start_at    BIGINT NOT NULL,
    asked_end   BIGINT NOT NULL,
    end_at      BIGINT NOT NULL,  -- 0: open
    limit_at    BIGINT NOT NULL,  -- charged no further than this; 0: no limit
    limit_reason TEXT  NOT NULL,
    PRIMARY KEY (lease_id, meter, number),
    CHECK (end_at = 0 OR end_at >= start_at)
);
-- A second open interval of a meter would charge the same second twice.
CREATE UNIQUE INDEX billing_intervals_open ON billing_intervals (lease_id, meter) WHERE end_at = 0;
CREATE TABLE billing_charges (
    id          TEXT   NOT NULL PRIMARY KEY,
    lease_id    TEXT   NOT NULL,
    account_id  TEXT   NOT NULL,
    provider_id TEXT   NOT NULL,
    meter       TEXT   NOT NULL,
    currency    TEXT   NOT NULL,
    amount      BIGINT NOT NULL,  -- negative: a correction
    provider    BIGINT NOT NULL,
    commission  BIGINT NOT NULL,
    simulated   BIGINT NOT NULL,
    from_at     BIGINT NOT NULL,
    to_at       BIGINT NOT NULL,
    posted_at   BIGINT NOT NULL,
    CHECK (amount = provider + commission)
);
CREATE INDEX billing_charges_account ON billing_charges (account_id, id);
CREATE INDEX billing_charges_provider ON billing_charges (provider_id, id);
CREATE INDEX billing_charges_lease ON billing_charges (lease_id, id);
