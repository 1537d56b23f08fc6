-- Named, versioned objects of a tenant beside its memory: runs, workspace files.

CREATE TABLE record (
  tenant_id TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  version   INTEGER NOT NULL CHECK (version > 0),
  at        INTEGER NOT NULL,
  body      TEXT    NOT NULL,               -- JSON object, redacted
  PRIMARY KEY (tenant_id, kind, key)
) STRICT, WITHOUT ROWID;
