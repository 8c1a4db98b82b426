-- +goose Up
CREATE TABLE cluster_run (
    id           TEXT   NOT NULL PRIMARY KEY,
    cluster_id   TEXT   NOT NULL,
    account_id   TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    job          TEXT   NOT NULL,  -- sealed: command and environment
    per_node     BIGINT NOT NULL,
    policy       TEXT   NOT NULL,
    max_restarts BIGINT NOT NULL,
    end_cluster  BIGINT NOT NULL,  -- 1: the cluster ends with it
    state        TEXT   NOT NULL,
    attempt      BIGINT NOT NULL,  -- from 0
    code         TEXT   NOT NULL,
    message      TEXT   NOT NULL,
    ranks        TEXT   NOT NULL,  -- JSON: exit codes of the present attempt
    failed_at    BIGINT NOT NULL,  -- when the present attempt was seen to fail; 0: it is not
    created_at   BIGINT NOT NULL,
    since_at     BIGINT NOT NULL,
    ended_at     BIGINT NOT NULL   -- 0: it goes on
);
CREATE INDEX cluster_run_open ON cluster_run (id) WHERE ended_at = 0;
CREATE INDEX cluster_run_of ON cluster_run (cluster_id, id);

-- +goose Down
DROP TABLE cluster_run;
