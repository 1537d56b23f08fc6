-- Named, versioned objects of a tenant beside its memory: runs, workspace files.

CREATE TABLE remem.record (
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  kind      text   COLLATE "C" NOT NULL,
  key       text   COLLATE "C" NOT NULL,
  version   bigint NOT NULL CHECK (version > 0),
  at        bigint NOT NULL,
  body      text   NOT NULL,                -- JSON object, redacted; text because jsonb would change it
  PRIMARY KEY (tenant_id, kind, key)
);
