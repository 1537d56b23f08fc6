-- One file holds one tenant. The tenant is in every key all the same: a statement that forgets it does not compile to an
-- index lookup, and a file that was swapped for another tenant's answers nothing.

CREATE TABLE tenant_clock (                 -- commit-ordered logical time
  tenant_id TEXT    NOT NULL PRIMARY KEY,
  revision  INTEGER NOT NULL,               -- the newest commit
  seq       INTEGER NOT NULL,               -- the newest event
  at        INTEGER NOT NULL,               -- the largest instant of any commit, ms
  chain     BLOB    NOT NULL                -- hash of the newest event
) STRICT, WITHOUT ROWID;

CREATE TABLE scope (
  scope_id   INTEGER PRIMARY KEY,
  tenant_id  TEXT NOT NULL,
  memory_ref TEXT NOT NULL,
  UNIQUE (tenant_id, memory_ref)
) STRICT;

CREATE TABLE entry (
  row_id         INTEGER PRIMARY KEY,
  tenant_id      TEXT    NOT NULL,
  scope_id       INTEGER NOT NULL REFERENCES scope (scope_id),
  id             TEXT    NOT NULL,
  tier           TEXT    NOT NULL CHECK (tier IN ('interaction', 'session', 'persistent')),
  typology       TEXT    NOT NULL CHECK (typology IN ('episodic', 'semantic', 'procedural')),
  content        TEXT    NOT NULL,          -- redacted; empty once erased
  tags           TEXT    NOT NULL,          -- JSON array, redacted
  metadata       TEXT,                      -- JSON object, redacted
  created_at     INTEGER NOT NULL,
  expires_at     INTEGER,
  written_by     TEXT,                      -- principal
  written_by_run TEXT,
  scan           INTEGER NOT NULL,          -- fingerprint of the redaction rules it was written under
  content_hash   BLOB,                      -- detects damage; goes with the text
  rev_from       INTEGER NOT NULL,
  rev_to         INTEGER,
  removed_reason TEXT    CHECK (removed_reason IN ('deleted', 'expired')),
  erased_at      INTEGER,
  UNIQUE (tenant_id, scope_id, id),         -- an id is never used again: the skeleton stays
  CHECK (rev_to IS NULL OR rev_to > rev_from),
  CHECK ((rev_to IS NULL) = (removed_reason IS NULL)),
  CHECK (erased_at IS NULL OR (content = '' AND tags = '[]' AND metadata IS NULL AND content_hash IS NULL))
) STRICT;
CREATE INDEX entry_list   ON entry (tenant_id, scope_id, created_at DESC, id DESC) WHERE rev_to IS NULL;
CREATE INDEX entry_expiry ON entry (tenant_id, expires_at) WHERE rev_to IS NULL AND expires_at IS NOT NULL;

CREATE TABLE entry_tag (
  tenant_id  TEXT    NOT NULL,
  scope_id   INTEGER NOT NULL,
  tag        TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  id         TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, tag, created_at, id)
) STRICT, WITHOUT ROWID;

-- The index belongs to this tenant alone, so its statistics tell nothing about others. `scope_key` makes a search
-- start from the memory it is for; it carries no weight in the score.
CREATE VIEW entry_text AS SELECT row_id, 's' || scope_id AS scope_key, content FROM entry WHERE erased_at IS NULL;
CREATE VIRTUAL TABLE entry_fts USING fts5 (
  scope_key, content, content = 'entry_text', content_rowid = 'row_id', tokenize = 'porter unicode61 remove_diacritics 2');
INSERT INTO entry_fts (entry_fts, rank) VALUES ('secure-delete', 1);

CREATE TABLE event (
  tenant_id TEXT    NOT NULL,
  seq       INTEGER NOT NULL,
  revision  INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  run_id    TEXT,
  kind      TEXT    NOT NULL,
  payload   TEXT    NOT NULL,               -- content-free JSON
  hash      BLOB    NOT NULL,               -- chained to the event before
  PRIMARY KEY (tenant_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (                  -- digests and outcomes only, never a body
  tenant_id TEXT    NOT NULL,
  operation TEXT    NOT NULL,
  key       BLOB    NOT NULL,
  body      BLOB    NOT NULL,
  at        INTEGER NOT NULL,
  revision  INTEGER NOT NULL,
  outcomes  TEXT    NOT NULL,
  PRIMARY KEY (tenant_id, operation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (tenant_id, at);
