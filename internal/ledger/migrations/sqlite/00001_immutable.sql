-- +goose Up
-- +goose StatementBegin
CREATE TRIGGER ledger_transfers_no_update BEFORE UPDATE ON ledger_transfers
BEGIN
    SELECT RAISE(ABORT, 'transfers are never changed: post a correction');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER ledger_transfers_no_delete BEFORE DELETE ON ledger_transfers
BEGIN
    SELECT RAISE(ABORT, 'transfers are never deleted: post a correction');
END;
-- +goose StatementEnd
