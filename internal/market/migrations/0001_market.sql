-- +goose Up
-- The row of a market is locked by whoever changes anything in it.
CREATE TABLE market (
    zone       TEXT   NOT NULL,
    gpu_model  TEXT   NOT NULL,
    simulated  BIGINT NOT NULL,
    cleared_at BIGINT NOT NULL,  -- of the last round; each is later than the one before
    next_at    BIGINT NOT NULL,  -- when time alone may change something; 0: never
    PRIMARY KEY (zone, gpu_model, simulated)
);

CREATE TABLE market_bid (
    id         TEXT   NOT NULL PRIMARY KEY,
    account_id TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    zone       TEXT   NOT NULL,
    gpu_model  TEXT   NOT NULL,
    simulated  BIGINT NOT NULL,
    gpus       BIGINT NOT NULL,
    price      BIGINT NOT NULL,  -- per GPU and hour, in nano-units
    max_price  BIGINT NOT NULL,  -- likewise; 0: none
    currency   TEXT   NOT NULL,
    time_zone  TEXT   NOT NULL,
    template   TEXT   NOT NULL,
    image      TEXT   NOT NULL,
    disk_gib   BIGINT NOT NULL,
    wish       TEXT   NOT NULL,  -- sealed: what to run
    state      TEXT   NOT NULL,
    code       TEXT   NOT NULL,
    message    TEXT   NOT NULL,
    lease_id   TEXT   NOT NULL,  -- '': none
    host_id    TEXT   NOT NULL,
    since_at   BIGINT NOT NULL,  -- when it got its place
    floor      BIGINT NOT NULL,  -- of its host then
    paid       BIGINT NOT NULL,  -- what it pays now, per GPU and hour
    leave_at   BIGINT NOT NULL,  -- end of its notice; 0: none
    cool_until BIGINT NOT NULL,
    avoid      TEXT   NOT NULL,  -- JSON: hosts that will not do for a while
    placed_at  BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL   -- 0: it may still run
);
CREATE INDEX market_bid_open ON market_bid (zone, gpu_model, simulated) WHERE ended_at = 0;
CREATE INDEX market_bid_account ON market_bid (account_id, id);

-- What a bundle size of a market cost, per GPU and hour, from a moment on.
CREATE TABLE market_price (
    zone      TEXT   NOT NULL,
    gpu_model TEXT   NOT NULL,
    simulated BIGINT NOT NULL,
    gpus      BIGINT NOT NULL,
    at        BIGINT NOT NULL,
    price     BIGINT NOT NULL,
    ask       BIGINT NOT NULL,
    PRIMARY KEY (zone, gpu_model, simulated, gpus, at)
);

-- +goose Down
DROP TABLE market_price;
DROP TABLE market_bid;
DROP TABLE market;
