-- +goose Up
-- At the close of a month only leases that had an outage are looked at.
CREATE INDEX lease_event_outage ON lease_event (at) WHERE event = 'host_fault' OR to_state = 'unreachable';

-- +goose Down
DROP INDEX lease_event_outage;
