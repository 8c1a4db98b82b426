-- +goose Up
-- How far events of use were sent to each address that was ever set up. An address
-- is known by its hash, as there may be secrets in it.
CREATE TABLE server_usage_sink (
    address    TEXT   NOT NULL PRIMARY KEY,
    number     BIGINT NOT NULL, -- of the last event that was taken; 0: none was
    last_id    TEXT   NOT NULL, -- likewise
    failures   BIGINT NOT NULL, -- since something was taken
    next_at    BIGINT NOT NULL, -- nothing is sent before
    claim      TEXT   NOT NULL, -- of the process that sends
    claimed_at BIGINT NOT NULL  -- until when it is that one's turn; 0: nobody's
);

-- +goose Down
DROP TABLE server_usage_sink;
