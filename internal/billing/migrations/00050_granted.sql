-- +goose Up
-- What grants paid of each charge; less than 0 where a correction gave back to them.
ALTER TABLE billing_charges ADD COLUMN granted BIGINT NOT NULL DEFAULT 0;
-- What each grant has paid of each meter of each lease.
CREATE TABLE billing_draws_by_meter (
    grant_id TEXT   NOT NULL REFERENCES billing_grants (id),
    lease_id TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    meter    TEXT   NOT NULL,
    amount   BIGINT NOT NULL,
    PRIMARY KEY (grant_id, lease_id, meter),
    CHECK (amount >= 0)
);
INSERT INTO billing_draws_by_meter (grant_id, lease_id, meter, amount) SELECT grant_id, lease_id, 'compute', amount FROM billing_draws;
DROP TABLE billing_draws;
ALTER TABLE billing_draws_by_meter RENAME TO billing_draws;
CREATE INDEX billing_draws_lease ON billing_draws (lease_id, meter);
-- What came in or went out beside deposits, refunds and invoices, such as credits
-- for bad service.
CREATE TABLE billing_statements_given (
    account_id TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    start_at   BIGINT NOT NULL,
    end_at     BIGINT NOT NULL,
    currency   TEXT   NOT NULL,
    opening    BIGINT NOT NULL,
    invoiced   BIGINT NOT NULL,
    credited   BIGINT NOT NULL,
    paid       BIGINT NOT NULL,
    refunded   BIGINT NOT NULL,
    given      BIGINT NOT NULL,
    closing    BIGINT NOT NULL,
    invoice_id TEXT   NOT NULL,  -- empty: nothing was used
    closed_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, start_at),
    CHECK (closing = opening - invoiced + credited + paid - refunded + given)
);
INSERT INTO billing_statements_given (account_id, start_at, end_at, currency, opening, invoiced, credited, paid, refunded, given, closing, invoice_id, closed_at)
    SELECT account_id, start_at, end_at, currency, opening, invoiced, credited, paid, refunded, 0, closing, invoice_id, closed_at FROM billing_statements;
DROP TABLE billing_statements;
ALTER TABLE billing_statements_given RENAME TO billing_statements;

-- +goose Down
ALTER TABLE billing_charges DROP COLUMN granted;
