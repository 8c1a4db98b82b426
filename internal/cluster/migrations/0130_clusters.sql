-- +goose Up
CREATE TABLE cluster (
    id           TEXT   NOT NULL PRIMARY KEY,
    account_id   TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    nodes        BIGINT NOT NULL,
    gpus         BIGINT NOT NULL,  -- of each node
    gpu_model    TEXT   NOT NULL,
    fast         BIGINT NOT NULL,
    simulated    BIGINT NOT NULL,
    region       TEXT   NOT NULL,  -- asked for; '': any
    zone         TEXT   NOT NULL,
    policy       TEXT   NOT NULL,  -- when a node is lost
    time_zone    TEXT   NOT NULL,
    currency     TEXT   NOT NULL,
    agreed       BIGINT NOT NULL,  -- the most that an hour of all nodes may cost
    per_hour     BIGINT NOT NULL,  -- what it costs; 0: nothing is rented
    wish         TEXT   NOT NULL,  -- sealed: what the nodes run
    state        TEXT   NOT NULL,
    code         TEXT   NOT NULL,
    message      TEXT   NOT NULL,
    avoid        TEXT   NOT NULL,  -- JSON: host -> until when it is not chosen
    start_within BIGINT NOT NULL,  -- how long nodes may take to run
    start_by     BIGINT NOT NULL,  -- when nodes that do not run are given up
    wait_until   BIGINT NOT NULL,  -- how long hosts are looked for; 0: not
    since_at     BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL   -- 0: it goes on
);
CREATE INDEX cluster_open ON cluster (id) WHERE ended_at = 0;
CREATE INDEX cluster_account ON cluster (account_id, id);

CREATE TABLE cluster_node (
    cluster_id TEXT   NOT NULL,
    rank       BIGINT NOT NULL,
    lease_id   TEXT   NOT NULL,  -- '': it is to be replaced
    host_id    TEXT   NOT NULL,
    region     TEXT   NOT NULL,
    zone       TEXT   NOT NULL,
    rack       TEXT   NOT NULL,
    overlay    TEXT   NOT NULL,  -- JSON: what its host says of its network; '': nothing
    PRIMARY KEY (cluster_id, rank)
);

CREATE TABLE cluster_event (
    id         TEXT   NOT NULL PRIMARY KEY,
    cluster_id TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    event      TEXT   NOT NULL,
    from_state TEXT   NOT NULL,
    to_state   TEXT   NOT NULL,
    code       TEXT   NOT NULL,
    message    TEXT   NOT NULL
);
CREATE INDEX cluster_event_of ON cluster_event (cluster_id, id);

-- +goose Down
DROP TABLE cluster_event;
DROP TABLE cluster_node;
DROP TABLE cluster;
