-- +goose Up
-- One row for each minute in which a control plane could write here.
CREATE TABLE sla_minutes (
    minute BIGINT NOT NULL PRIMARY KEY -- since 1970
);

-- +goose Down
DROP TABLE sla_minutes;
