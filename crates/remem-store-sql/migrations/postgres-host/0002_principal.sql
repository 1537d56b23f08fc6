-- Whom a key acts as. Several keys may be one principal's, so that one can replace another; keys made before are each their own.
-- The policies hide all keys from their owner, too: it steps over them here, and the walls force them on it again before anybody
-- else sees the table.

ALTER TABLE remem.api_key ADD COLUMN principal text COLLATE "C" CHECK (principal <> '');
ALTER TABLE remem.api_key NO FORCE ROW LEVEL SECURITY;
UPDATE remem.api_key SET principal = key_id;
ALTER TABLE remem.api_key ALTER COLUMN principal SET NOT NULL;
