-- +goose Up
-- Months in advance, of leases that have them.
CREATE TABLE billing_monthly (
    lease_id   TEXT   NOT NULL PRIMARY KEY REFERENCES billing_leases (lease_id),
    terms      TEXT   NOT NULL,  -- JSON of the price in force, counted from its anchor
    renews     BIGINT NOT NULL,
    on_lapse   TEXT   NOT NULL,  -- stop or on_demand
    term_from  BIGINT NOT NULL,  -- the term that is paid for
    term_until BIGINT NOT NULL,
    since      BIGINT NOT NULL,  -- where the part of the term with the price in force begins
    paid       BIGINT NOT NULL,  -- for that part
    warned     BIGINT NOT NULL,  -- the shortest warning looked at for this term, in seconds before its end; 0: none
    ended_at   BIGINT NOT NULL,  -- from where nothing is paid for in advance; 0: in force
    end_code   TEXT   NOT NULL,
    again_at   BIGINT NOT NULL   -- when the renter started the lease after the term was over; 0: not
);
-- What was paid in advance and what was given back of it. Never changed.
CREATE TABLE billing_prepayments (
    lease_id  TEXT   NOT NULL REFERENCES billing_leases (lease_id),
    number    BIGINT NOT NULL,
    kind      TEXT   NOT NULL,  -- term, renewal, change or refund
    amount    BIGINT NOT NULL,  -- negative: given back
    per_month BIGINT NOT NULL,  -- of the price that it is at
    basis_points BIGINT NOT NULL,  -- likewise, of the discount
    from_at   BIGINT NOT NULL,
    until_at  BIGINT NOT NULL,
    PRIMARY KEY (lease_id, number)
);

-- +goose Down
DROP TABLE billing_prepayments;
DROP TABLE billing_monthly;
