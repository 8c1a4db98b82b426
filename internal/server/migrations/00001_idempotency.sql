-- +goose Up
CREATE TABLE idempotency (
  scope        TEXT NOT NULL,   -- account and user: one user's answers may hold secrets that another must not read
  operation    TEXT NOT NULL,
  key          TEXT NOT NULL,
  request_hash TEXT NOT NULL,   -- SHA-256 of method, target and body
  claim        TEXT NOT NULL,   -- the request that is, or was, doing it
  claimed_at   BIGINT NOT NULL,
  status       BIGINT NOT NULL, -- 0: in progress
  response     TEXT NOT NULL,   -- sealed, base64
  PRIMARY KEY (scope, operation, key)
);
CREATE INDEX idempotency_age ON idempotency (claimed_at);

-- +goose Down
DROP TABLE idempotency;
