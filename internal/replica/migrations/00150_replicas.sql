-- +goose Up
CREATE TABLE replicas (
  id         TEXT PRIMARY KEY, -- of one run of a control plane
  address    TEXT NOT NULL,    -- where other replicas dial it
  build      TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  beat       BIGINT NOT NULL   -- counted up while it lives
);
CREATE TABLE replica_lead (
  one    BIGINT PRIMARY KEY, -- 1
  holder TEXT NOT NULL,      -- empty: nobody
  term   BIGINT NOT NULL     -- counted up when the lead changes
);
INSERT INTO replica_lead (one, holder, term) VALUES (1, '', 0);

-- +goose Down
DROP TABLE replica_lead;
DROP TABLE replicas;
