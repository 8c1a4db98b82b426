-- +goose Up
CREATE TABLE billing_coupons (
    code          TEXT   NOT NULL PRIMARY KEY,
    rule          TEXT   NOT NULL,  -- as the operator wrote it
    valid_seconds BIGINT NOT NULL,  -- of the grant, from when the coupon is redeemed
    used          BIGINT NOT NULL,
    created_at    BIGINT NOT NULL
);
CREATE TABLE billing_coupon_uses (
    code       TEXT   NOT NULL REFERENCES billing_coupons (code),
    account_id TEXT   NOT NULL REFERENCES billing_accounts (account_id),
    grant_id   TEXT   NOT NULL REFERENCES billing_grants (id),
    used_at    BIGINT NOT NULL,
    PRIMARY KEY (code, account_id)
);

-- +goose Down
DROP TABLE billing_coupon_uses;
DROP TABLE billing_coupons;
