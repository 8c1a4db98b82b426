-- +goose Up
CREATE TABLE sign_in_addresses (
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  network TEXT NOT NULL,   -- an IPv4 address, or an IPv6 /64
  last_at BIGINT NOT NULL, -- of the last success
  PRIMARY KEY (user_id, network)
);

-- +goose Down
DROP TABLE sign_in_addresses;
