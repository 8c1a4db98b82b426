-- +goose Up
-- Prices that the operator gives accounts. A list is never changed: who wants others
-- makes another, and takes this one away from its accounts.
CREATE TABLE billing_price_lists (
    id          TEXT   NOT NULL PRIMARY KEY,
    name        TEXT   NOT NULL UNIQUE,
    currency    TEXT   NOT NULL,  -- of its rates; empty: it has none
    rules       TEXT   NOT NULL,  -- JSON
    valid_from  BIGINT NOT NULL,
    valid_until BIGINT NOT NULL,  -- not in its time; 0: for ever
    created_by  TEXT   NOT NULL,
    created_at  BIGINT NOT NULL
);
-- Which accounts have or had which list.
CREATE TABLE billing_priced_accounts (
    list_id     TEXT   NOT NULL REFERENCES billing_price_lists (id),
    account_id  TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    assigned_at BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL,  -- 0: it has it
    assigned_by TEXT   NOT NULL,
    PRIMARY KEY (account_id, list_id, assigned_at)
);

-- +goose Down
DROP TABLE billing_priced_accounts;
DROP TABLE billing_price_lists;
