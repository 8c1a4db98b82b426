-- +goose Up
-- How far below zero an account's compute may run; 0: prepaid.
ALTER TABLE billing_accounts ADD COLUMN credit_limit BIGINT NOT NULL DEFAULT 0;
-- Every limit that ever was in force, so that the books can be proven against it.
CREATE TABLE billing_credit_limits (
    account_id   TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    number       BIGINT NOT NULL,  -- from 1
    credit_limit BIGINT NOT NULL,
    net_days     BIGINT NOT NULL,  -- for invoices of the account; -1: the operator's default
    set_at       BIGINT NOT NULL,
    set_by       TEXT   NOT NULL,
    reason       TEXT   NOT NULL,
    PRIMARY KEY (account_id, number),
    CHECK (credit_limit >= 0)
);

-- +goose Down
DROP TABLE billing_credit_limits;
ALTER TABLE billing_accounts DROP COLUMN credit_limit;
