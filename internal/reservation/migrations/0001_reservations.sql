-- +goose Up
CREATE TABLE reservation (
    id          TEXT   NOT NULL PRIMARY KEY,
    account_id  TEXT   NOT NULL,
    user_id     TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    provider_id TEXT   NOT NULL,
    host_id     TEXT   NOT NULL,
    region      TEXT   NOT NULL,
    zone        TEXT   NOT NULL,
    gpu_model   TEXT   NOT NULL,
    gpus        BIGINT NOT NULL,
    simulated   BIGINT NOT NULL,
    time_zone   TEXT   NOT NULL,
    terms       TEXT   NOT NULL,  -- JSON: what was agreed, with its totals
    renews      BIGINT NOT NULL,
    state       TEXT   NOT NULL,
    code        TEXT   NOT NULL,
    message     TEXT   NOT NULL,
    held        BIGINT NOT NULL,  -- GPUs are held for it
    renewal_of  TEXT   NOT NULL,  -- the reservation that it carries on; '': none
    from_at     BIGINT NOT NULL,
    until_at    BIGINT NOT NULL,  -- end of the last clock hour, earlier if it was ended
    since_at    BIGINT NOT NULL,  -- when it came into its state
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL   -- 0: it goes on
);
CREATE INDEX reservation_open ON reservation (id) WHERE ended_at = 0;
CREATE INDEX reservation_account ON reservation (account_id, id);

-- +goose Down
DROP TABLE reservation;
