-- +goose Up
CREATE TABLE budget_budgets (
    id            TEXT   NOT NULL PRIMARY KEY,
    account_id    TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    label         TEXT   NOT NULL, -- key=value; empty: not by label
    user_id       TEXT   NOT NULL, -- who made the leases; empty: not by user
    currency      TEXT   NOT NULL,
    amount        BIGINT NOT NULL, -- for each period
    from_at       BIGINT NOT NULL, -- 0: each calendar month
    until_at      BIGINT NOT NULL,
    thresholds    TEXT   NOT NULL, -- JSON
    action        TEXT   NOT NULL,
    blocked_until BIGINT NOT NULL, -- the end of the period whose amount is used up; 0: it is not
    created_at    BIGINT NOT NULL,
    changed_at    BIGINT NOT NULL,
    UNIQUE (account_id, name)
);
CREATE INDEX budget_budgets_account ON budget_budgets (account_id, id);

-- What an account was told of a period.
CREATE TABLE budget_told (
    budget_id    TEXT   NOT NULL,
    period_start BIGINT NOT NULL,
    basis_points BIGINT NOT NULL,
    forecast     BIGINT NOT NULL,
    amount       BIGINT NOT NULL, -- of the budget, at that time
    told_at      BIGINT NOT NULL,
    PRIMARY KEY (budget_id, period_start, basis_points, forecast)
);

-- +goose Down
DROP TABLE budget_told;
DROP TABLE budget_budgets;
