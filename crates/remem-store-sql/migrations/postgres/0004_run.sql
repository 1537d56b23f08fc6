-- Runs: a log of their own inside the tenant's, and the snapshots they read.

ALTER TABLE remem.event ADD COLUMN run_seq bigint;      -- 0, 1, 2, … inside the run
ALTER TABLE remem.event ADD COLUMN recorded_at bigint;  -- when it happened first, if a replay repeats it
ALTER TABLE remem.event ALTER COLUMN run_id TYPE text COLLATE "C";
CREATE UNIQUE INDEX event_run ON remem.event (tenant_id, run_id, run_seq) WHERE run_id IS NOT NULL;

CREATE TABLE remem.snapshot (                           -- what is deleted meanwhile keeps its text until the run has ended
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  run_id    text   COLLATE "C" NOT NULL,
  revision  bigint NOT NULL,
  at        bigint NOT NULL,
  PRIMARY KEY (tenant_id, run_id)
);
ALTER TABLE remem.entry ADD COLUMN removed_by_run text;  -- that run sees it no more, though its snapshot is older
CREATE INDEX entry_ended ON remem.entry (tenant_id, rev_to) WHERE rev_to IS NOT NULL AND erased_at IS NULL;
