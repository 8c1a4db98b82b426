-- +goose Up
CREATE TABLE notify_notifications (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    subject    TEXT   NOT NULL, -- what it is about: a lease, an invoice, the account
    at         BIGINT NOT NULL, -- when it happened; the same again is the same news
    data       TEXT   NOT NULL, -- JSON of the kind's payload
    made_at    BIGINT NOT NULL,
    read_at    BIGINT NOT NULL, -- 0: not yet
    UNIQUE (account_id, kind, subject, at)
);
CREATE INDEX notify_notifications_account ON notify_notifications (account_id, id);
CREATE INDEX notify_notifications_made ON notify_notifications (made_at);
CREATE INDEX notify_notifications_unread ON notify_notifications (account_id, id) WHERE read_at = 0;

-- One row an account, to be locked while its webhooks are counted.
CREATE TABLE notify_accounts (
    account_id TEXT NOT NULL PRIMARY KEY
);

CREATE TABLE notify_endpoints (
    id             TEXT   NOT NULL PRIMARY KEY,
    account_id     TEXT   NOT NULL,
    url            TEXT   NOT NULL,
    description    TEXT   NOT NULL,
    kinds          TEXT   NOT NULL, -- JSON list; empty: all
    secret         TEXT   NOT NULL, -- sealed
    previous       TEXT   NOT NULL, -- sealed; signs as well until previous_until
    previous_until BIGINT NOT NULL,
    enabled        BIGINT NOT NULL,
    disabled_why   TEXT   NOT NULL,
    failing_since  BIGINT NOT NULL, -- 0: the last attempt was taken
    created_at     BIGINT NOT NULL,
    changed_at     BIGINT NOT NULL
);
CREATE INDEX notify_endpoints_account ON notify_endpoints (account_id, id);

-- What is to be sent where: written in the transaction of what it is about.
CREATE TABLE notify_deliveries (
    id            TEXT   NOT NULL PRIMARY KEY,
    endpoint_id   TEXT   NOT NULL,
    account_id    TEXT   NOT NULL,
    notification_id TEXT NOT NULL,
    kind          TEXT   NOT NULL,
    body          TEXT   NOT NULL, -- the CloudEvent, byte for byte as it is sent
    state         TEXT   NOT NULL, -- pending, delivered, failed
    attempts      BIGINT NOT NULL,
    first_at      BIGINT NOT NULL, -- when it was due first; retries end a day later
    next_at       BIGINT NOT NULL, -- when it is due; while one sends it: when another may
    claim         TEXT   NOT NULL, -- who sends it now
    finished_at   BIGINT NOT NULL
);
CREATE INDEX notify_deliveries_due ON notify_deliveries (next_at, endpoint_id) WHERE state = 'pending';
CREATE INDEX notify_deliveries_old ON notify_deliveries (finished_at) WHERE state <> 'pending';
CREATE INDEX notify_deliveries_endpoint ON notify_deliveries (endpoint_id, id);

CREATE TABLE notify_attempts (
    delivery_id TEXT   NOT NULL,
    number      BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    status      BIGINT NOT NULL, -- 0: no answer came
    latency_us  BIGINT NOT NULL,
    error       TEXT   NOT NULL,
    excerpt     TEXT   NOT NULL, -- the beginning of the answer
    PRIMARY KEY (delivery_id, number)
);

-- +goose Down
DROP TABLE notify_attempts;
DROP TABLE notify_deliveries;
DROP TABLE notify_endpoints;
DROP TABLE notify_accounts;
DROP TABLE notify_notifications;
