-- +goose Up
-- Reservations of before leases on demand could claim do not say that they are of
-- the spot market, which their bids do. The market's tables come after the fleet's.
UPDATE fleet_reservations SET spot = 1
    WHERE spot = 0 AND lease_id IN (SELECT lease_id FROM market_bid WHERE lease_id <> '');

-- +goose Down
SELECT 1;
