-- +goose Up
CREATE TABLE quote (
  id          TEXT PRIMARY KEY,
  account_id  TEXT NOT NULL,
  offer       TEXT NOT NULL,
  request     TEXT NOT NULL,
  price       TEXT NOT NULL,
  created_at  BIGINT NOT NULL,
  valid_until BIGINT NOT NULL,
  lease_id    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX quote_valid ON quote (valid_until);

CREATE TABLE lease (
  id            TEXT PRIMARY KEY,
  account_id    TEXT NOT NULL,
  user_id       TEXT NOT NULL,
  provider_id   TEXT NOT NULL,
  host_id       TEXT NOT NULL,
  quote_id      TEXT NOT NULL UNIQUE,
  name          TEXT NOT NULL,
  labels        TEXT NOT NULL,
  template      TEXT NOT NULL,
  image         TEXT NOT NULL,
  gpu_model     TEXT NOT NULL,
  gpu_uuids     TEXT NOT NULL,
  bundle        TEXT NOT NULL,
  price         TEXT NOT NULL,
  spec          TEXT NOT NULL,
  access_token  TEXT NOT NULL,
  simulated     BIGINT NOT NULL,
  state         TEXT NOT NULL,
  generation    BIGINT NOT NULL,
  version       BIGINT NOT NULL,
  code          TEXT NOT NULL DEFAULT '',
  message       TEXT NOT NULL DEFAULT '',
  exit_code     BIGINT,
  cleaned       BIGINT NOT NULL DEFAULT 0,
  deadline      BIGINT NOT NULL DEFAULT 0,
  idle_seconds  BIGINT NOT NULL DEFAULT 0,
  idle_gpu_percent BIGINT NOT NULL DEFAULT 0,
  idle_cpu_percent BIGINT NOT NULL DEFAULT 0,
  spending_cap  BIGINT NOT NULL DEFAULT 0,
  created_at    BIGINT NOT NULL,
  changed_at    BIGINT NOT NULL,
  running_since BIGINT NOT NULL DEFAULT 0,
  ended_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX lease_account ON lease (account_id, id);
CREATE INDEX lease_live ON lease (state, host_id);

CREATE TABLE lease_event (
  id         TEXT PRIMARY KEY,
  lease_id   TEXT NOT NULL,
  account_id TEXT NOT NULL,
  at         BIGINT NOT NULL,
  event      TEXT NOT NULL,
  from_state TEXT NOT NULL,
  to_state   TEXT NOT NULL,
  code       TEXT NOT NULL,
  message    TEXT NOT NULL
);
CREATE INDEX lease_event_lease ON lease_event (lease_id, id);

-- +goose Down
DROP TABLE lease_event;
DROP TABLE lease;
DROP TABLE quote;
