-- Vectors: what search by meaning compares. With pgvector the table has one more column, which `postgres-walls.sql` adds, because the
-- extension may come after this step.

CREATE TABLE remem.vector (                 -- goes with the text it was computed from
  tenant_id  text     COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id   bigint   NOT NULL,
  row_id     bigint   NOT NULL,
  model      bigint   NOT NULL,
  tier       text     NOT NULL,             -- of its entry, for the indexes
  typology   text     NOT NULL,
  dimensions integer  NOT NULL,
  bytes      bytea    NOT NULL CHECK (length(bytes) = dimensions), -- one a component
  PRIMARY KEY (tenant_id, scope_id, row_id, model)
);
