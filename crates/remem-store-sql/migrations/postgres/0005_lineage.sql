-- Entries that stand for others: what was merged, superseded or compacted; what a text was made from; whom it is about;
-- and what consolidation computed from it.

ALTER TABLE remem.entry DROP CONSTRAINT entry_removed_reason_check;
ALTER TABLE remem.entry ADD CONSTRAINT entry_removed_reason_check
  CHECK (removed_reason IN ('deleted', 'expired', 'forgotten', 'merged', 'superseded', 'compacted'));
ALTER TABLE remem.entry ADD COLUMN replaced_by bigint;  -- the row of the same memory that stands for it
ALTER TABLE remem.entry ADD COLUMN support bigint NOT NULL DEFAULT 1 CHECK (support > 0); -- how many entries say what it says
ALTER TABLE remem.entry ADD CHECK (replaced_by IS NULL OR rev_to IS NOT NULL);
CREATE INDEX entry_spent    ON remem.entry (tenant_id, rev_to) WHERE erased_at IS NULL AND removed_reason IN ('deleted', 'compacted');
CREATE INDEX entry_replaced ON remem.entry (tenant_id, scope_id, replaced_by) WHERE replaced_by IS NOT NULL AND erased_at IS NULL;

CREATE TABLE remem.lineage (                -- a row, and one that its text was made from (or that was merged into it)
  tenant_id    text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id     bigint NOT NULL,
  row_id       bigint NOT NULL,
  source_scope bigint NOT NULL,
  source_row   bigint NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, row_id, source_scope, source_row)
);
CREATE INDEX lineage_source ON remem.lineage (tenant_id, source_scope, source_row);

CREATE TABLE remem.entry_subject (          -- keyed digests; stay with a skeleton, since others may be made from it
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  subject   bytea  NOT NULL,
  scope_id  bigint NOT NULL,
  row_id    bigint NOT NULL,
  PRIMARY KEY (tenant_id, subject, scope_id, row_id)
);
CREATE INDEX entry_subject_row ON remem.entry_subject (tenant_id, scope_id, row_id);

CREATE TABLE remem.signature (              -- goes with the text it was computed from
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id  bigint NOT NULL,
  row_id    bigint NOT NULL,
  pass      bigint NOT NULL,
  signature bytea  NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, row_id)
);
