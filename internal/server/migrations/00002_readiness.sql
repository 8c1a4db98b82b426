-- +goose Up
CREATE TABLE readiness (
  id BIGINT PRIMARY KEY, -- 1
  at BIGINT NOT NULL     -- when a replica last tried whether it can write
);

-- +goose Down
DROP TABLE readiness;
