-- +goose Up
ALTER TABLE billing_leases ADD COLUMN posted_ingress BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_leases ADD COLUMN posted_public_ip BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_leases ADD COLUMN posted_snapshot BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_leases ADD COLUMN posted_volume BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE billing_leases DROP COLUMN posted_ingress;
ALTER TABLE billing_leases DROP COLUMN posted_public_ip;
ALTER TABLE billing_leases DROP COLUMN posted_snapshot;
ALTER TABLE billing_leases DROP COLUMN posted_volume;
