-- +goose Up
-- Leases that are over pile up for ever; what is asked again and again is the others.
CREATE INDEX lease_open ON lease (id) WHERE cleaned=0;
CREATE INDEX lease_held ON lease (account_id) WHERE state NOT IN ('ended','failed');

-- +goose Down
DROP INDEX lease_held;
DROP INDEX lease_open;
