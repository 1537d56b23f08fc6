-- A hash over all columns of each row, so that `remem doctor` sees damage: one byte that tells the format (which columns, in which
-- order), and 15 of the digest. Triggers keep it, because many statements write these tables: whatever changes or erases a row makes
-- its hash anew in the same commit, and no hash of an erased text stays. `row_hash_of` comes from the host, as `app_user_id` does.
-- Rows from before have none until upkeep has made it, table by table, as `hash_fill` says. A column that is added later makes a
-- format of its own (`src/row_hash.rs`): the triggers go by it from then on, and rows of the older format stay as they are.
-- `event` needs nothing, because its hashes chain; `entry_tag` is held against `entry.tags`; `unindexed` holds no data.

CREATE TABLE hash_fill (                    -- tables with rows from before this step
  name TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

ALTER TABLE tenant_clock ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_tenant_clock_hash_put AFTER INSERT ON tenant_clock BEGIN
  UPDATE tenant_clock SET row_hash = row_hash_of(1, tenant_id, revision, seq, at, chain)
    WHERE tenant_id = NEW.tenant_id; END;
CREATE TRIGGER z_tenant_clock_hash_change AFTER UPDATE OF tenant_id, revision, seq, at, chain ON tenant_clock BEGIN
  UPDATE tenant_clock SET row_hash = row_hash_of(1, tenant_id, revision, seq, at, chain)
    WHERE tenant_id = NEW.tenant_id; END;
INSERT INTO hash_fill (name) SELECT 'tenant_clock' WHERE EXISTS (SELECT 1 FROM tenant_clock);

ALTER TABLE scope ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_scope_hash_put AFTER INSERT ON scope BEGIN
  UPDATE scope SET row_hash = row_hash_of(1, scope_id, tenant_id, memory_ref, owner)
    WHERE scope_id = NEW.scope_id; END;
CREATE TRIGGER z_scope_hash_change AFTER UPDATE OF scope_id, tenant_id, memory_ref, owner ON scope BEGIN
  UPDATE scope SET row_hash = row_hash_of(1, scope_id, tenant_id, memory_ref, owner)
    WHERE scope_id = NEW.scope_id; END;
INSERT INTO hash_fill (name) SELECT 'scope' WHERE EXISTS (SELECT 1 FROM scope);

-- As before, but not for the hash, which follows from the other columns.
DROP TRIGGER w_entry_change;
CREATE TRIGGER w_entry_change BEFORE UPDATE OF tenant_id, scope_id, row_id, id, tier, typology, content, tags, metadata, created_at,
    expires_at, written_by, written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, removed_by_run, erased_at, owner,
    replaced_by, support, session, interaction, world, slot, valid_at, invalid_at, ended_at, trust, evidence ON entry
  WHEN OLD.owner IS NOT NEW.owner OR (OLD.owner IS NOT NULL AND coalesce(app_user_id(), '') NOT IN (OLD.owner, '*'))
  BEGIN SELECT RAISE(ABORT, '42501:row_security'); END;
DROP TRIGGER c_immutable;
CREATE TRIGGER c_immutable BEFORE UPDATE OF id, tier, typology, created_at, removed_reason, replaced_by ON entry
  WHEN (NEW.id, NEW.tier, NEW.typology, NEW.created_at) IS NOT (OLD.id, OLD.tier, OLD.typology, OLD.created_at)
    OR (OLD.removed_reason = 'superseded' AND NEW.removed_reason = 'superseded' AND OLD.replaced_by IS NOT NULL
       AND NEW.replaced_by IS NOT OLD.replaced_by)
  BEGIN SELECT RAISE(ABORT, '23514:entry_immutable'); END;
ALTER TABLE entry ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_entry_hash_put AFTER INSERT ON entry BEGIN
  UPDATE entry SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, id, tier, typology, content, tags, metadata,
    created_at, expires_at, written_by, written_by_run, scan, content_hash, rev_from, rev_to, removed_reason,
    removed_by_run, erased_at, owner, replaced_by, support, session, interaction, world, slot, valid_at, invalid_at,
    ended_at, trust, evidence)
    WHERE row_id = NEW.row_id; END;
CREATE TRIGGER z_entry_hash_change AFTER UPDATE OF tenant_id, scope_id, row_id, id, tier, typology, content, tags,
    metadata, created_at, expires_at, written_by, written_by_run, scan, content_hash, rev_from, rev_to,
    removed_reason, removed_by_run, erased_at, owner, replaced_by, support, session, interaction, world, slot,
    valid_at, invalid_at, ended_at, trust, evidence ON entry BEGIN
  UPDATE entry SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, id, tier, typology, content, tags, metadata,
    created_at, expires_at, written_by, written_by_run, scan, content_hash, rev_from, rev_to, removed_reason,
    removed_by_run, erased_at, owner, replaced_by, support, session, interaction, world, slot, valid_at, invalid_at,
    ended_at, trust, evidence)
    WHERE row_id = NEW.row_id; END;
INSERT INTO hash_fill (name) SELECT 'entry' WHERE EXISTS (SELECT 1 FROM entry);

ALTER TABLE lease ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_lease_hash_put AFTER INSERT ON lease BEGIN
  UPDATE lease SET row_hash = row_hash_of(1, tenant_id, pass, holder, fence, until)
    WHERE (tenant_id, pass)
      = (NEW.tenant_id, NEW.pass); END;
CREATE TRIGGER z_lease_hash_change AFTER UPDATE OF tenant_id, pass, holder, fence, until ON lease BEGIN
  UPDATE lease SET row_hash = row_hash_of(1, tenant_id, pass, holder, fence, until)
    WHERE (tenant_id, pass)
      = (NEW.tenant_id, NEW.pass); END;
INSERT INTO hash_fill (name) SELECT 'lease' WHERE EXISTS (SELECT 1 FROM lease);

ALTER TABLE idempotency ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_idempotency_hash_put AFTER INSERT ON idempotency BEGIN
  UPDATE idempotency SET row_hash = row_hash_of(1, tenant_id, operation, key, body, at, revision, outcomes)
    WHERE (tenant_id, operation, key)
      = (NEW.tenant_id, NEW.operation, NEW.key); END;
CREATE TRIGGER z_idempotency_hash_change AFTER UPDATE OF tenant_id, operation, key, body, at, revision, outcomes ON idempotency BEGIN
  UPDATE idempotency SET row_hash = row_hash_of(1, tenant_id, operation, key, body, at, revision, outcomes)
    WHERE (tenant_id, operation, key)
      = (NEW.tenant_id, NEW.operation, NEW.key); END;
INSERT INTO hash_fill (name) SELECT 'idempotency' WHERE EXISTS (SELECT 1 FROM idempotency);

ALTER TABLE record ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_record_hash_put AFTER INSERT ON record BEGIN
  UPDATE record SET row_hash = row_hash_of(1, tenant_id, kind, key, version, at, body, due, topic, source_scope,
    source_row)
    WHERE (tenant_id, kind, key)
      = (NEW.tenant_id, NEW.kind, NEW.key); END;
CREATE TRIGGER z_record_hash_change AFTER UPDATE OF tenant_id, kind, key, version, at, body, due, topic, source_scope,
    source_row ON record BEGIN
  UPDATE record SET row_hash = row_hash_of(1, tenant_id, kind, key, version, at, body, due, topic, source_scope,
    source_row)
    WHERE (tenant_id, kind, key)
      = (NEW.tenant_id, NEW.kind, NEW.key); END;
INSERT INTO hash_fill (name) SELECT 'record' WHERE EXISTS (SELECT 1 FROM record);

ALTER TABLE review ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_review_hash_put AFTER INSERT ON review BEGIN
  UPDATE review SET row_hash = row_hash_of(1, tenant_id, kind, key, version, at, body, due)
    WHERE (tenant_id, kind, key)
      = (NEW.tenant_id, NEW.kind, NEW.key); END;
CREATE TRIGGER z_review_hash_change AFTER UPDATE OF tenant_id, kind, key, version, at, body, due ON review BEGIN
  UPDATE review SET row_hash = row_hash_of(1, tenant_id, kind, key, version, at, body, due)
    WHERE (tenant_id, kind, key)
      = (NEW.tenant_id, NEW.kind, NEW.key); END;
INSERT INTO hash_fill (name) SELECT 'review' WHERE EXISTS (SELECT 1 FROM review);

ALTER TABLE snapshot ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_snapshot_hash_put AFTER INSERT ON snapshot BEGIN
  UPDATE snapshot SET row_hash = row_hash_of(1, tenant_id, run_id, revision, at)
    WHERE (tenant_id, run_id)
      = (NEW.tenant_id, NEW.run_id); END;
CREATE TRIGGER z_snapshot_hash_change AFTER UPDATE OF tenant_id, run_id, revision, at ON snapshot BEGIN
  UPDATE snapshot SET row_hash = row_hash_of(1, tenant_id, run_id, revision, at)
    WHERE (tenant_id, run_id)
      = (NEW.tenant_id, NEW.run_id); END;
INSERT INTO hash_fill (name) SELECT 'snapshot' WHERE EXISTS (SELECT 1 FROM snapshot);

ALTER TABLE lineage ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_lineage_hash_put AFTER INSERT ON lineage BEGIN
  UPDATE lineage SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, source_scope, source_row)
    WHERE (tenant_id, scope_id, row_id, source_scope, source_row)
      = (NEW.tenant_id, NEW.scope_id, NEW.row_id, NEW.source_scope, NEW.source_row); END;
CREATE TRIGGER z_lineage_hash_change AFTER UPDATE OF tenant_id, scope_id, row_id, source_scope, source_row ON lineage BEGIN
  UPDATE lineage SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, source_scope, source_row)
    WHERE (tenant_id, scope_id, row_id, source_scope, source_row)
      = (NEW.tenant_id, NEW.scope_id, NEW.row_id, NEW.source_scope, NEW.source_row); END;
INSERT INTO hash_fill (name) SELECT 'lineage' WHERE EXISTS (SELECT 1 FROM lineage);

ALTER TABLE entry_subject ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_entry_subject_hash_put AFTER INSERT ON entry_subject BEGIN
  UPDATE entry_subject SET row_hash = row_hash_of(1, tenant_id, subject, scope_id, row_id)
    WHERE (tenant_id, subject, scope_id, row_id)
      = (NEW.tenant_id, NEW.subject, NEW.scope_id, NEW.row_id); END;
CREATE TRIGGER z_entry_subject_hash_change AFTER UPDATE OF tenant_id, subject, scope_id, row_id ON entry_subject BEGIN
  UPDATE entry_subject SET row_hash = row_hash_of(1, tenant_id, subject, scope_id, row_id)
    WHERE (tenant_id, subject, scope_id, row_id)
      = (NEW.tenant_id, NEW.subject, NEW.scope_id, NEW.row_id); END;
INSERT INTO hash_fill (name) SELECT 'entry_subject' WHERE EXISTS (SELECT 1 FROM entry_subject);

ALTER TABLE signature ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_signature_hash_put AFTER INSERT ON signature BEGIN
  UPDATE signature SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, pass, signature)
    WHERE (tenant_id, scope_id, row_id)
      = (NEW.tenant_id, NEW.scope_id, NEW.row_id); END;
CREATE TRIGGER z_signature_hash_change AFTER UPDATE OF tenant_id, scope_id, row_id, pass, signature ON signature BEGIN
  UPDATE signature SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, pass, signature)
    WHERE (tenant_id, scope_id, row_id)
      = (NEW.tenant_id, NEW.scope_id, NEW.row_id); END;
INSERT INTO hash_fill (name) SELECT 'signature' WHERE EXISTS (SELECT 1 FROM signature);

ALTER TABLE action_link ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_action_link_hash_put AFTER INSERT ON action_link BEGIN
  UPDATE action_link SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, action, reference, linked_at,
    linked_by)
    WHERE (tenant_id, scope_id, row_id, action, reference)
      = (NEW.tenant_id, NEW.scope_id, NEW.row_id, NEW.action, NEW.reference); END;
CREATE TRIGGER z_action_link_hash_change AFTER UPDATE OF tenant_id, scope_id, row_id, action, reference, linked_at,
    linked_by ON action_link BEGIN
  UPDATE action_link SET row_hash = row_hash_of(1, tenant_id, scope_id, row_id, action, reference, linked_at,
    linked_by)
    WHERE (tenant_id, scope_id, row_id, action, reference)
      = (NEW.tenant_id, NEW.scope_id, NEW.row_id, NEW.action, NEW.reference); END;
INSERT INTO hash_fill (name) SELECT 'action_link' WHERE EXISTS (SELECT 1 FROM action_link);

ALTER TABLE rule ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_rule_hash_put AFTER INSERT ON rule BEGIN
  UPDATE rule SET row_hash = row_hash_of(1, tenant_id, world, id, body, at, size, trigrams)
    WHERE (tenant_id, world, id)
      = (NEW.tenant_id, NEW.world, NEW.id); END;
CREATE TRIGGER z_rule_hash_change AFTER UPDATE OF tenant_id, world, id, body, at, size, trigrams ON rule BEGIN
  UPDATE rule SET row_hash = row_hash_of(1, tenant_id, world, id, body, at, size, trigrams)
    WHERE (tenant_id, world, id)
      = (NEW.tenant_id, NEW.world, NEW.id); END;
INSERT INTO hash_fill (name) SELECT 'rule' WHERE EXISTS (SELECT 1 FROM rule);

ALTER TABLE vector ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_vector_hash_put AFTER INSERT ON vector BEGIN
  UPDATE vector SET row_hash = row_hash_of(1, n, tenant_id, scope_id, row_id, model, bytes)
    WHERE n = NEW.n; END;
CREATE TRIGGER z_vector_hash_change AFTER UPDATE OF n, tenant_id, scope_id, row_id, model, bytes ON vector BEGIN
  UPDATE vector SET row_hash = row_hash_of(1, n, tenant_id, scope_id, row_id, model, bytes)
    WHERE n = NEW.n; END;
INSERT INTO hash_fill (name) SELECT 'vector' WHERE EXISTS (SELECT 1 FROM vector);
