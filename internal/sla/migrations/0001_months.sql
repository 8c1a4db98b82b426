-- +goose Up
-- What was given and taken for a lease and month, once there was an outage.
CREATE TABLE sla_months (
    lease_id    TEXT   NOT NULL,
    month       TEXT   NOT NULL, -- such as 2026-03
    account_id  TEXT   NOT NULL,
    provider_id TEXT   NOT NULL,
    currency    TEXT   NOT NULL,
    simulated   BIGINT NOT NULL,
    report      TEXT   NOT NULL, -- JSON of the last closing
    credit      BIGINT NOT NULL, -- all that was posted so far
    clawback    BIGINT NOT NULL,
    penalty     BIGINT NOT NULL,
    postings    BIGINT NOT NULL, -- how often something was posted; makes keys unique
    closed_at   BIGINT NOT NULL,
    PRIMARY KEY (lease_id, month)
);
CREATE INDEX sla_months_account ON sla_months (account_id, month, lease_id);
CREATE INDEX sla_months_provider ON sla_months (provider_id, currency);

CREATE TABLE sla_confirmations (
    lease_id     TEXT   NOT NULL,
    outage_from  BIGINT NOT NULL,
    confirmed_by TEXT   NOT NULL,
    note         TEXT   NOT NULL,
    confirmed_at BIGINT NOT NULL,
    PRIMARY KEY (lease_id, outage_from)
);

-- +goose Down
DROP TABLE sla_confirmations;
DROP TABLE sla_months;
