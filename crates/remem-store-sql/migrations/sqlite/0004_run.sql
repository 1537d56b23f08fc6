-- Runs: a log of their own inside the tenant's, and the snapshots they read.

ALTER TABLE event ADD COLUMN run_seq INTEGER;     -- 0, 1, 2, … inside the run
ALTER TABLE event ADD COLUMN recorded_at INTEGER; -- when it happened first, if a replay repeats it
CREATE UNIQUE INDEX event_run ON event (tenant_id, run_id, run_seq) WHERE run_id IS NOT NULL;

CREATE TABLE snapshot (                           -- what is deleted meanwhile keeps its text until the run has ended
  tenant_id TEXT    NOT NULL,
  run_id    TEXT    NOT NULL,
  revision  INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_id)
) STRICT, WITHOUT ROWID;
ALTER TABLE entry ADD COLUMN removed_by_run TEXT;  -- that run sees it no more, though its snapshot is older
CREATE INDEX entry_ended ON entry (tenant_id, rev_to) WHERE rev_to IS NOT NULL AND erased_at IS NULL;
