-- +goose Up
CREATE TABLE drills (
  id       TEXT PRIMARY KEY,
  kind     TEXT NOT NULL,
  subject  TEXT NOT NULL,  -- a host, or region/zone
  begun_at BIGINT NOT NULL,
  until_at BIGINT NOT NULL, -- moved to the moment at which it is ended early
  user_id  TEXT NOT NULL
);
CREATE TABLE drill_hosts (
  drill_id TEXT NOT NULL REFERENCES drills (id),
  host_id  TEXT NOT NULL,
  PRIMARY KEY (drill_id, host_id)
);
CREATE TABLE drill_leases (
  drill_id TEXT NOT NULL REFERENCES drills (id),
  lease_id TEXT NOT NULL,
  host_id  TEXT NOT NULL,
  state    TEXT NOT NULL, -- at the beginning
  PRIMARY KEY (drill_id, lease_id)
);

-- +goose Down
DROP TABLE drill_leases;
DROP TABLE drill_hosts;
DROP TABLE drills;
