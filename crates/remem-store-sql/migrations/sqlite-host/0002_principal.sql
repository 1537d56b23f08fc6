-- Whom a key acts as. Several keys may be one principal's, so that one can replace another; keys made before are each their own.
-- SQLite adds no column without a value for the rows that are there; the empty text is no principal, and nothing writes it.

ALTER TABLE api_key ADD COLUMN principal TEXT NOT NULL DEFAULT '';
UPDATE api_key SET principal = key_id;
