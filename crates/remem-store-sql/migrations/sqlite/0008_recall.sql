-- Search by words and by meaning. The index itself is in the process's memory, made from the entries and vectors of one memory when it
-- is first searched (`sqlite/index`): there is nothing on disk that a crash could leave behind. What is here is what it is made from.

DROP TABLE entry_fts;
DROP VIEW entry_text;
CREATE INDEX entry_scope ON entry (tenant_id, scope_id);

CREATE TABLE vector (                       -- goes with the text it was computed from
  n         INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: an index reads on from the last one it knows
  tenant_id TEXT    NOT NULL,
  scope_id  INTEGER NOT NULL,
  row_id    INTEGER NOT NULL,
  model     INTEGER NOT NULL,
  bytes     BLOB    NOT NULL,               -- one a component
  UNIQUE (row_id, model)
) STRICT;
CREATE INDEX vector_scope ON vector (tenant_id, scope_id, model);

CREATE TABLE unindexed (                    -- rows whose text has changed or gone, for the indexes that know the old one
  n        INTEGER PRIMARY KEY AUTOINCREMENT,
  scope_id INTEGER NOT NULL,
  row_id   INTEGER NOT NULL
) STRICT;
CREATE INDEX unindexed_scope ON unindexed (scope_id);
