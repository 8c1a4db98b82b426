-- +goose Up
-- Which replica a host is connected to, and what that one last knew of it. It is
-- written when something in it changes, not with each report.
CREATE TABLE fleet_presence (
  host_id TEXT PRIMARY KEY,
  replica TEXT NOT NULL,
  session TEXT NOT NULL,
  online  BIGINT NOT NULL,
  ready   BIGINT NOT NULL,
  problem TEXT NOT NULL,
  seen_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE fleet_presence;
