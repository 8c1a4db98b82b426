-- +goose Up
-- When each GPU was in a lease: allocations are deleted when they end, and who
-- earned with what is asked later.
CREATE TABLE fleet_rented (
    lease_id   TEXT   NOT NULL,
    gpu_uuid   TEXT   NOT NULL,
    from_at    BIGINT NOT NULL,
    until_at   BIGINT NOT NULL DEFAULT 0, -- 0: it goes on
    host_id    TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    simulated  BIGINT NOT NULL,
    PRIMARY KEY (lease_id, gpu_uuid, from_at)
);
CREATE INDEX fleet_rented_account ON fleet_rented (account_id, from_at);
INSERT INTO fleet_rented (lease_id, gpu_uuid, from_at, host_id, account_id, simulated)
    SELECT a.lease_id, a.gpu_uuid, a.created_at, a.host_id, h.account_id, h.simulated FROM fleet_allocations a JOIN fleet_hosts h ON h.id = a.host_id;

-- When each GPU was on the market.
CREATE TABLE fleet_listed (
    gpu_uuid   TEXT   NOT NULL,
    from_at    BIGINT NOT NULL,
    until_at   BIGINT NOT NULL DEFAULT 0,
    host_id    TEXT   NOT NULL,
    account_id TEXT   NOT NULL,
    model      TEXT   NOT NULL,
    simulated  BIGINT NOT NULL,
    PRIMARY KEY (gpu_uuid, from_at)
);
CREATE UNIQUE INDEX fleet_listed_open ON fleet_listed (gpu_uuid) WHERE until_at = 0;
CREATE INDEX fleet_listed_account ON fleet_listed (account_id, from_at);
CREATE INDEX fleet_listed_host ON fleet_listed (host_id, until_at);

-- Maintenance that was announced, with what was taken back or replaced.
CREATE TABLE fleet_maintenance (
    id           TEXT   NOT NULL PRIMARY KEY,
    host_id      TEXT   NOT NULL,
    account_id   TEXT   NOT NULL,
    from_at      BIGINT NOT NULL,
    until_at     BIGINT NOT NULL, -- cut to the moment at which it was taken back
    announced_at BIGINT NOT NULL,
    withdrawn_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX fleet_maintenance_host ON fleet_maintenance (host_id, from_at);
CREATE INDEX fleet_maintenance_account ON fleet_maintenance (account_id, from_at);
-- When the windows of before were announced was not kept: at their begin at the
-- latest, which is the least that a renter can be held to.
INSERT INTO fleet_maintenance (id, host_id, account_id, from_at, until_at, announced_at)
    SELECT 'mw-' || id, id, account_id, maintenance_from, maintenance_until, maintenance_from FROM fleet_hosts WHERE maintenance_from <> 0;

-- +goose Down
DROP TABLE fleet_maintenance;
DROP TABLE fleet_listed;
DROP TABLE fleet_rented;
