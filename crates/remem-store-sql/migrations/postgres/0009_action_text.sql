-- What an action is called can lose a secret, and goes when the entry is forgotten: the twin of SQLite's step of the same name. The
-- right to do it, for these two columns and no others, is in postgres-walls.sql.
COMMENT ON TABLE remem.action_link IS 'actions that rest on entries: added, never taken back';
