-- +goose Up
CREATE TABLE fleet_join_tokens (
    id         TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    region     TEXT NOT NULL,
    zone       TEXT NOT NULL,
    rack       TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0,
    bus_key    TEXT NOT NULL DEFAULT '',
    host_id    TEXT NOT NULL DEFAULT ''
);

CREATE TABLE fleet_hosts (
    id                TEXT PRIMARY KEY,
    account_id        TEXT NOT NULL,
    name              TEXT NOT NULL,
    region            TEXT NOT NULL,
    zone              TEXT NOT NULL,
    rack              TEXT NOT NULL,
    bus_key           TEXT NOT NULL UNIQUE,
    build             TEXT NOT NULL,
    simulated         BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    listing           TEXT NOT NULL,
    draining          BIGINT NOT NULL DEFAULT 0,
    maintenance_from  BIGINT NOT NULL DEFAULT 0,
    maintenance_until BIGINT NOT NULL DEFAULT 0,
    inventory         TEXT NOT NULL DEFAULT '',
    inventory_problem TEXT NOT NULL DEFAULT '',
    tested            TEXT NOT NULL DEFAULT '',
    last_seen         BIGINT NOT NULL DEFAULT 0,
    online_seconds    BIGINT NOT NULL DEFAULT 0,
    offline_seconds   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX fleet_hosts_account ON fleet_hosts (account_id);

CREATE TABLE fleet_gpus (
    uuid         TEXT PRIMARY KEY,
    host_id      TEXT NOT NULL REFERENCES fleet_hosts (id),
    position     BIGINT NOT NULL,
    model        TEXT NOT NULL,
    present      BIGINT NOT NULL,
    health       TEXT NOT NULL,
    reason       TEXT NOT NULL,
    fenced_at    BIGINT NOT NULL DEFAULT 0,
    cleared_xids TEXT NOT NULL DEFAULT ''
);
CREATE INDEX fleet_gpus_host ON fleet_gpus (host_id);

-- One row per GPU in a lease. The primary key is what makes two takers impossible.
CREATE TABLE fleet_allocations (
    gpu_uuid   TEXT PRIMARY KEY,
    host_id    TEXT NOT NULL,
    lease_id   TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX fleet_allocations_host ON fleet_allocations (host_id);
CREATE INDEX fleet_allocations_lease ON fleet_allocations (lease_id);

CREATE TABLE fleet_reservations (
    lease_id   TEXT PRIMARY KEY,
    host_id    TEXT NOT NULL,
    gpu_model  TEXT NOT NULL,
    gpu_count  BIGINT NOT NULL,
    cpu_millis BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    disk_mib   BIGINT NOT NULL,
    compute    BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX fleet_reservations_host ON fleet_reservations (host_id);

-- Keyed by address and not by host: hosts behind one address share its ports.
CREATE TABLE fleet_ports (
    address        TEXT NOT NULL,
    port           BIGINT NOT NULL,
    host_id        TEXT NOT NULL,
    lease_id       TEXT NOT NULL,
    container_port BIGINT NOT NULL,
    PRIMARY KEY (address, port)
);
CREATE INDEX fleet_ports_lease ON fleet_ports (lease_id);

-- +goose Down
DROP TABLE fleet_ports;
DROP TABLE fleet_reservations;
DROP TABLE fleet_allocations;
DROP TABLE fleet_gpus;
DROP TABLE fleet_hosts;
DROP TABLE fleet_join_tokens;
