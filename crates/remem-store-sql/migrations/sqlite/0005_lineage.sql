-- Entries that stand for others: what was merged, superseded or compacted; what a text was made from; whom it is about;
-- and what consolidation computed from it. A column's CHECK cannot be changed in place, so the table is made anew.

CREATE TABLE entry_next (
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
  removed_reason TEXT    CHECK (removed_reason IN ('deleted', 'expired', 'forgotten', 'merged', 'superseded', 'compacted')),
  removed_by_run TEXT,                      -- that run sees it no more, though its snapshot is older
  erased_at      INTEGER,
  owner          TEXT    CHECK (owner <> ''),
  replaced_by    INTEGER,                   -- the row of the same memory that stands for it
  support        INTEGER NOT NULL DEFAULT 1 CHECK (support > 0), -- how many entries say what it says
  UNIQUE (tenant_id, scope_id, id),         -- an id is never used again: the skeleton stays
  CHECK (rev_to IS NULL OR rev_to > rev_from),
  CHECK ((rev_to IS NULL) = (removed_reason IS NULL)),
  CHECK (erased_at IS NULL OR (content = '' AND tags = '[]' AND metadata IS NULL AND content_hash IS NULL)),
  CHECK (replaced_by IS NULL OR rev_to IS NOT NULL)
) STRICT;
INSERT INTO entry_next (row_id, tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at, written_by,
    written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, removed_by_run, erased_at, owner)
  SELECT row_id, tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at, written_by,
    written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, removed_by_run, erased_at, owner FROM entry;
DROP VIEW entry_text;
DROP TABLE entry;
ALTER TABLE entry_next RENAME TO entry;
CREATE VIEW entry_text AS SELECT row_id, 's' || scope_id AS scope_key, content FROM entry WHERE erased_at IS NULL;
CREATE INDEX entry_list     ON entry (tenant_id, scope_id, created_at DESC, id DESC) WHERE rev_to IS NULL;
CREATE INDEX entry_expiry   ON entry (tenant_id, expires_at) WHERE rev_to IS NULL AND expires_at IS NOT NULL;
CREATE INDEX entry_ended    ON entry (tenant_id, rev_to) WHERE rev_to IS NOT NULL AND erased_at IS NULL;
CREATE INDEX entry_spent    ON entry (tenant_id, rev_to) WHERE erased_at IS NULL AND removed_reason IN ('deleted', 'compacted');
CREATE INDEX entry_replaced ON entry (tenant_id, scope_id, replaced_by) WHERE replaced_by IS NOT NULL AND erased_at IS NULL;

-- What consolidation reads, in the order of rows: the index ends with the row by itself.
CREATE INDEX entry_eligible ON entry (tenant_id, scope_id) WHERE rev_to IS NULL AND expires_at IS NULL AND tier = 'persistent';

CREATE TABLE lineage (                      -- a row, and one that its text was made from (or that was merged into it)
  tenant_id    TEXT    NOT NULL,
  scope_id     INTEGER NOT NULL,
  row_id       INTEGER NOT NULL,
  source_scope INTEGER NOT NULL,
  source_row   INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, row_id, source_scope, source_row)
) STRICT, WITHOUT ROWID;
CREATE INDEX lineage_source ON lineage (tenant_id, source_scope, source_row);

CREATE TABLE entry_subject (                -- keyed digests; stay with a skeleton, since others may be made from it
  tenant_id TEXT    NOT NULL,
  subject   BLOB    NOT NULL,
  scope_id  INTEGER NOT NULL,
  row_id    INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, subject, scope_id, row_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_subject_row ON entry_subject (tenant_id, scope_id, row_id);

CREATE TABLE signature (                    -- goes with the text it was computed from
  tenant_id TEXT    NOT NULL,
  scope_id  INTEGER NOT NULL,
  row_id    INTEGER NOT NULL,
  pass      INTEGER NOT NULL,
  signature BLOB    NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, row_id)
) STRICT, WITHOUT ROWID;
