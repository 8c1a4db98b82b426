-- +goose Up
-- What is to be paid of each invoice, and by when. How it stands is derived from
-- postings; settled_at and next_at only keep invoices from being looked at in vain.
CREATE TABLE billing_dues (
    invoice_id     TEXT   NOT NULL PRIMARY KEY REFERENCES billing_invoices (id),
    account_id     TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    number         BIGINT NOT NULL,
    total          BIGINT NOT NULL,
    due_from       BIGINT NOT NULL,  -- the beginning of the day on which it is due
    due_at         BIGINT NOT NULL,  -- the end of that day
    time_zone      TEXT   NOT NULL,  -- whose calendar its reminders follow
    written_off    BIGINT NOT NULL,
    written_off_at BIGINT NOT NULL,
    settled_at     BIGINT NOT NULL,  -- when nothing was owed of it; 0: something is
    next_at        BIGINT NOT NULL   -- when something is to be done about it next
);
CREATE INDEX billing_dues_account ON billing_dues (account_id, number);
CREATE INDEX billing_dues_next ON billing_dues (settled_at, next_at);
-- The steps that were taken: each is there once, with what announced it.
CREATE TABLE billing_dunning (
    invoice_id TEXT   NOT NULL REFERENCES billing_dues (invoice_id),
    step       TEXT   NOT NULL,
    done_at    BIGINT NOT NULL,
    missed     BIGINT NOT NULL,  -- 1: a later step stood for it
    PRIMARY KEY (invoice_id, step)
);
-- Since when compute is stopped because an invoice is overdue; 0: it is not.
ALTER TABLE billing_accounts ADD COLUMN overdue_since BIGINT NOT NULL DEFAULT 0;
-- When it was announced that disks will be deleted; 0: it was not.
ALTER TABLE billing_accounts ADD COLUMN deletion_told BIGINT NOT NULL DEFAULT 0;
UPDATE billing_accounts SET deletion_told = exhausted_at WHERE grace_warned <> 0;

-- +goose Down
ALTER TABLE billing_accounts DROP COLUMN deletion_told;
ALTER TABLE billing_accounts DROP COLUMN overdue_since;
DROP TABLE billing_dunning;
DROP TABLE billing_dues;
