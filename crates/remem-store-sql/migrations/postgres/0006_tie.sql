-- Records that are found by more than their names, and what is under review, apart from everything that runs.

ALTER TABLE remem.record ADD COLUMN due          bigint;           -- when something is to be done about it
ALTER TABLE remem.record ADD COLUMN topic        text COLLATE "C"; -- what it waits for
ALTER TABLE remem.record ADD COLUMN source_scope bigint;           -- the entry that it was made from, and goes with
ALTER TABLE remem.record ADD COLUMN source_row   bigint;
CREATE INDEX record_due    ON remem.record (tenant_id, due, kind, key) WHERE due IS NOT NULL;
CREATE INDEX record_topic  ON remem.record (tenant_id, kind, topic, key) WHERE topic IS NOT NULL;
CREATE INDEX record_source ON remem.record (tenant_id, source_scope, source_row) WHERE source_row IS NOT NULL;

CREATE TABLE remem.review (                 -- proposals; the role that serves runs may not read `body`
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  kind      text   COLLATE "C" NOT NULL,
  key       text   COLLATE "C" NOT NULL,
  version   bigint NOT NULL CHECK (version > 0),
  at        bigint NOT NULL,
  body      text   NOT NULL,                -- JSON object, redacted
  due       bigint,
  PRIMARY KEY (tenant_id, kind, key)
);
CREATE INDEX review_due ON remem.review (tenant_id, due, kind, key) WHERE due IS NOT NULL;

ALTER TABLE remem.upkeep ADD COLUMN next_due bigint NOT NULL DEFAULT 9223372036854775807; -- of the tenant's records
CREATE INDEX upkeep_records ON remem.upkeep (next_due);
