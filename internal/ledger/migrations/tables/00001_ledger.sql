-- +goose Up
CREATE TABLE ledger_accounts (
    path     TEXT   NOT NULL,
    currency TEXT   NOT NULL,
    debits   BIGINT NOT NULL CHECK (debits >= 0),
    credits  BIGINT NOT NULL CHECK (credits >= 0),
    guarded  BIGINT NOT NULL,
    version  BIGINT NOT NULL,
    PRIMARY KEY (path, currency),
    CHECK (guarded = 0 OR credits >= debits)
);
CREATE TABLE ledger_transfers (
    id           TEXT   NOT NULL PRIMARY KEY,
    idempotency  TEXT   NOT NULL UNIQUE,
    debit        TEXT   NOT NULL,
    credit       TEXT   NOT NULL,
    amount       BIGINT NOT NULL CHECK (amount > 0),
    currency     TEXT   NOT NULL,
    code         TEXT   NOT NULL,
    reference    TEXT   NOT NULL,
    effective_at BIGINT NOT NULL,
    posted_at    BIGINT NOT NULL,
    CHECK (debit <> credit),
    FOREIGN KEY (debit, currency) REFERENCES ledger_accounts (path, currency),
    FOREIGN KEY (credit, currency) REFERENCES ledger_accounts (path, currency)
);
CREATE INDEX ledger_transfers_debit ON ledger_transfers (debit, id);
CREATE INDEX ledger_transfers_credit ON ledger_transfers (credit, id);
