-- The most that a key may vouch for. Keys made before have none (NULL): they keep what they could, which is everything, until
-- somebody says otherwise.

ALTER TABLE remem.api_key ADD COLUMN trust text CHECK (trust IN ('untrusted', 'model', 'tool', 'action', 'operator'));
