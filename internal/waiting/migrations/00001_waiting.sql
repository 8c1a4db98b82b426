-- +goose Up
CREATE TABLE waiting_request (
    id           TEXT   NOT NULL PRIMARY KEY,
    account_id   TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    gpu_model    TEXT   NOT NULL,
    gpus         BIGINT NOT NULL,
    region       TEXT   NOT NULL,  -- asked for; '': any
    zone         TEXT   NOT NULL,
    simulated    BIGINT NOT NULL,
    template     TEXT   NOT NULL,
    image        TEXT   NOT NULL,
    disk_gib     BIGINT NOT NULL,
    wish         TEXT   NOT NULL,  -- sealed: what to run
    max_per_hour BIGINT NOT NULL,  -- the most that an hour of all of it may cost
    currency     TEXT   NOT NULL,
    time_zone    TEXT   NOT NULL,
    estimate     BIGINT NOT NULL,  -- microseconds that it runs at most; 0: not said
    priority     BIGINT NOT NULL,  -- among those of its account
    state        TEXT   NOT NULL,
    code         TEXT   NOT NULL,  -- what it waits for, or how it ended
    message      TEXT   NOT NULL,
    failures     BIGINT NOT NULL,  -- how often starting it has failed
    failed_at    BIGINT NOT NULL,  -- when it last did
    lease_id     TEXT   NOT NULL,  -- '': none
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL   -- 0: it waits
);
CREATE INDEX waiting_request_open ON waiting_request (id) WHERE ended_at = 0;
CREATE INDEX waiting_request_account ON waiting_request (account_id, id);

-- +goose Down
DROP TABLE waiting_request;
