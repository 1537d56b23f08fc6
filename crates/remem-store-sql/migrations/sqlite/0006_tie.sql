-- Records that are found by more than their names, and what is under review, apart from everything that runs.

ALTER TABLE record ADD COLUMN due          INTEGER;  -- when something is to be done about it
ALTER TABLE record ADD COLUMN topic        TEXT;     -- what it waits for
ALTER TABLE record ADD COLUMN source_scope INTEGER;  -- the entry that it was made from, and goes with
ALTER TABLE record ADD COLUMN source_row   INTEGER;
CREATE INDEX record_due    ON record (tenant_id, due, kind, key) WHERE due IS NOT NULL;
CREATE INDEX record_topic  ON record (tenant_id, kind, topic, key) WHERE topic IS NOT NULL;
CREATE INDEX record_source ON record (tenant_id, source_scope, source_row) WHERE source_row IS NOT NULL;

CREATE TABLE review (                                -- proposals; connections that serve runs may not read `body`
  tenant_id TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  version   INTEGER NOT NULL CHECK (version > 0),
  at        INTEGER NOT NULL,
  body      TEXT    NOT NULL,                        -- JSON object, redacted
  due       INTEGER,
  PRIMARY KEY (tenant_id, kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX review_due ON review (tenant_id, due, kind, key) WHERE due IS NOT NULL;
