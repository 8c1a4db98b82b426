-- +goose Up
-- The month of each account that is not closed. Closed ones are statements.
CREATE TABLE billing_periods (
    account_id TEXT   NOT NULL PRIMARY KEY REFERENCES billing_accounts (account_id),
    start_at   BIGINT NOT NULL,
    end_at     BIGINT NOT NULL,
    CHECK (end_at > start_at)
);
CREATE INDEX billing_periods_end ON billing_periods (end_at);
CREATE TABLE billing_statements (
    account_id TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    start_at   BIGINT NOT NULL,
    end_at     BIGINT NOT NULL,
    currency   TEXT   NOT NULL,
    opening    BIGINT NOT NULL,
    invoiced   BIGINT NOT NULL,
    credited   BIGINT NOT NULL,
    paid       BIGINT NOT NULL,
    refunded   BIGINT NOT NULL,
    closing    BIGINT NOT NULL,
    invoice_id TEXT   NOT NULL,  -- empty: nothing was used
    closed_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, start_at),
    CHECK (closing = opening - invoiced + credited + paid - refunded)
);
-- The next number is taken in the transaction that writes the document, so no
-- number is ever missing.
CREATE TABLE billing_series (
    series TEXT   NOT NULL PRIMARY KEY,
    next   BIGINT NOT NULL,
    digest TEXT   NOT NULL  -- of the last document
);
CREATE TABLE billing_invoices (
    id           TEXT   NOT NULL PRIMARY KEY,
    account_id   TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    series       TEXT   NOT NULL,
    number       BIGINT NOT NULL,
    corrects     TEXT   NOT NULL,  -- of a credit note: the invoice
    request      TEXT   NOT NULL,  -- of a credit note: the digest of its idempotency key
    period_start BIGINT NOT NULL,
    period_end   BIGINT NOT NULL,
    issued_at    BIGINT NOT NULL,
    document     TEXT   NOT NULL,  -- JSON, never changed
    digest       TEXT   NOT NULL,  -- of the document and of the digest before it in the series
    UNIQUE (series, number)
);
CREATE UNIQUE INDEX billing_invoices_month ON billing_invoices (account_id, period_start) WHERE corrects = '';
CREATE INDEX billing_invoices_account ON billing_invoices (account_id, id);
CREATE INDEX billing_invoices_corrects ON billing_invoices (corrects, id);
CREATE UNIQUE INDEX billing_invoices_request ON billing_invoices (account_id, request) WHERE request <> '';
-- What has been invoiced, to the micro: the next invoice has what goes beyond it.
CREATE TABLE billing_invoice_lines (
    invoice_id TEXT   NOT NULL REFERENCES billing_invoices (id),
    position   BIGINT NOT NULL,
    lease_id   TEXT   NOT NULL,
    meter      TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    PRIMARY KEY (invoice_id, position)
);
CREATE INDEX billing_invoice_lines_lease ON billing_invoice_lines (lease_id, meter);
-- What credit notes have taken back of each line of an invoice, as shown.
CREATE TABLE billing_credits (
    note_id    TEXT   NOT NULL REFERENCES billing_invoices (id),
    invoice_id TEXT   NOT NULL REFERENCES billing_invoices (id),
    account_id TEXT   NOT NULL,
    position   BIGINT NOT NULL,
    amount     BIGINT NOT NULL,
    total      BIGINT NOT NULL,  -- with tax
    issued_at  BIGINT NOT NULL,
    PRIMARY KEY (note_id, position)
);
CREATE INDEX billing_credits_invoice ON billing_credits (invoice_id, position);
CREATE INDEX billing_credits_account ON billing_credits (account_id, issued_at);
CREATE TABLE billing_profiles (
    account_id   TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    address      TEXT NOT NULL,
    tax_number   TEXT NOT NULL,
    jurisdiction TEXT NOT NULL
);
-- When a charge counts; it is on the invoice of that month.
ALTER TABLE billing_charges ADD COLUMN booked_at BIGINT NOT NULL DEFAULT 0;
UPDATE billing_charges SET booked_at = CASE WHEN to_at < posted_at THEN to_at ELSE posted_at END;
CREATE INDEX billing_charges_period ON billing_charges (account_id, booked_at);

-- +goose Down
DROP INDEX billing_charges_period;
ALTER TABLE billing_charges DROP COLUMN booked_at;
DROP TABLE billing_profiles;
DROP TABLE billing_credits;
DROP TABLE billing_invoice_lines;
DROP TABLE billing_invoices;
DROP TABLE billing_series;
DROP TABLE billing_statements;
DROP TABLE billing_periods;
