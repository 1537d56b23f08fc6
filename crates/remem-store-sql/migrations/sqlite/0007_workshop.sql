-- Tiers, typologies and their anchors; what is true from when to when; who said it; which actions rest on it; and the rules that no
-- memory may restate. The twin of the PostgreSQL step of the same name; what a policy, a constraint or a function does there, a
-- trigger does here. `app_user_id` (who is acting) and `trgm_…` come from the host: a connection without it can write nothing.

CREATE TABLE entry_next (
  row_id         INTEGER PRIMARY KEY,
  tenant_id      TEXT    NOT NULL,
  scope_id       INTEGER NOT NULL REFERENCES scope (scope_id),
  id             TEXT    NOT NULL,
  tier           TEXT    NOT NULL CHECK (tier IN ('interaction', 'session', 'persistent')),
  typology       TEXT    NOT NULL CHECK (typology IN ('episodic', 'semantic', 'procedural')),
  content        TEXT    NOT NULL,          -- redacted; empty once erased
  tags           TEXT    NOT NULL,          -- JSON array, redacted
  metadata       TEXT,                      -- JSON object, redacted
  created_at     INTEGER NOT NULL,
  expires_at     INTEGER,
  written_by     TEXT,                      -- principal
  written_by_run TEXT,
  scan           INTEGER NOT NULL,          -- fingerprint of the redaction rules it was written under
  content_hash   BLOB,                      -- detects damage; goes with the text
  rev_from       INTEGER NOT NULL,
  rev_to         INTEGER,
  removed_reason TEXT    CHECK (removed_reason IN
    ('deleted', 'expired', 'forgotten', 'merged', 'superseded', 'compacted', 'invalidated', 'closed', 'held')),
  removed_by_run TEXT,                      -- that run sees it no more, though its snapshot is older
  erased_at      INTEGER,
  owner          TEXT    CHECK (owner <> ''),
  replaced_by    INTEGER,                   -- the row of the same memory that stands for it
  support        INTEGER NOT NULL DEFAULT 1 CHECK (support > 0), -- how many entries say what it says
  session        TEXT,                      -- the session that it ends with
  interaction    TEXT,                      -- the chat thread that it ends with
  world          TEXT,                      -- whose rules it may not restate; '-' has none
  slot           TEXT,                      -- the one question that it answers
  valid_at       INTEGER,                   -- semantic: true from …
  invalid_at     INTEGER,                   -- … until
  ended_at       INTEGER,                   -- when it was taken away (procedural: superseded)
  trust          TEXT    NOT NULL DEFAULT 'model' CHECK (trust IN ('untrusted', 'model', 'tool', 'action', 'operator')),
  evidence       TEXT    NOT NULL DEFAULT '', -- digests of its sources, no content
  UNIQUE (tenant_id, scope_id, id),         -- an id is never used again: the skeleton stays
  CHECK (rev_to IS NULL OR rev_to > rev_from),
  CHECK ((rev_to IS NULL) = (removed_reason IS NULL)),
  CHECK (erased_at IS NULL OR (content = '' AND tags = '[]' AND metadata IS NULL AND content_hash IS NULL)),
  CHECK (replaced_by IS NULL OR rev_to IS NOT NULL),
  CONSTRAINT anchor_interaction CHECK ((tier = 'interaction') = (interaction IS NOT NULL)),
  CONSTRAINT anchor_session CHECK (tier = 'persistent' OR session IS NOT NULL),
  CONSTRAINT world_when_semantic CHECK (typology <> 'semantic' OR world IS NOT NULL),
  CONSTRAINT validity_order CHECK (invalid_at >= coalesce(valid_at, invalid_at)),
  CONSTRAINT validity_is_semantic CHECK (typology = 'semantic' OR (valid_at IS NULL AND invalid_at IS NULL))
) STRICT;
INSERT INTO entry_next (row_id, tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at, written_by,
    written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, removed_by_run, erased_at, owner, replaced_by, support, world)
  SELECT row_id, tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at, written_by,
    written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, removed_by_run, erased_at, owner, replaced_by, support, '-'
  FROM entry;
DROP VIEW entry_text;
DROP TABLE entry;
ALTER TABLE entry_next RENAME TO entry;
CREATE VIEW entry_text AS SELECT row_id, 's' || scope_id AS scope_key, content FROM entry WHERE erased_at IS NULL;
CREATE INDEX entry_list     ON entry (tenant_id, scope_id, created_at DESC, id DESC) WHERE rev_to IS NULL;
CREATE INDEX entry_expiry   ON entry (tenant_id, expires_at) WHERE rev_to IS NULL AND expires_at IS NOT NULL;
CREATE INDEX entry_ended    ON entry (tenant_id, rev_to) WHERE rev_to IS NOT NULL AND erased_at IS NULL;
CREATE INDEX entry_spent    ON entry (tenant_id, rev_to) WHERE erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed');
CREATE INDEX entry_replaced ON entry (tenant_id, scope_id, replaced_by) WHERE replaced_by IS NOT NULL AND erased_at IS NULL;
CREATE INDEX entry_eligible ON entry (tenant_id, scope_id) WHERE rev_to IS NULL AND expires_at IS NULL AND tier = 'persistent';
CREATE INDEX entry_slot     ON entry (tenant_id, scope_id, slot) WHERE slot IS NOT NULL;
CREATE INDEX entry_session  ON entry (tenant_id, scope_id, session, created_at DESC, id DESC) WHERE session IS NOT NULL AND rev_to IS NULL;
CREATE INDEX entry_faded    ON entry (tenant_id, invalid_at) WHERE invalid_at IS NOT NULL AND erased_at IS NULL;
-- There is one way to do a thing.
CREATE UNIQUE INDEX one_active_procedure ON entry (tenant_id, scope_id, slot)
  WHERE typology = 'procedural' AND slot IS NOT NULL AND rev_to IS NULL;

CREATE TABLE action_link (                  -- an action that rests on an entry; added, never changed
  tenant_id TEXT    NOT NULL,
  scope_id  INTEGER NOT NULL,
  row_id    INTEGER NOT NULL REFERENCES entry (row_id) ON DELETE RESTRICT,
  action    TEXT    NOT NULL,               -- what was done
  reference TEXT    NOT NULL,               -- its name where it was done
  linked_at INTEGER NOT NULL,
  linked_by TEXT,                           -- principal
  PRIMARY KEY (tenant_id, scope_id, row_id, action, reference)
) STRICT, WITHOUT ROWID;
CREATE INDEX action_link_row ON action_link (row_id);

CREATE TABLE rule (                         -- canonical texts of a world: no memory, and no memory may restate them
  tenant_id TEXT    NOT NULL,
  world     TEXT    NOT NULL CHECK (world <> '-'),
  id        TEXT    NOT NULL,
  body      TEXT    NOT NULL,               -- redacted
  at        INTEGER NOT NULL,
  size      INTEGER NOT NULL,               -- how many trigrams it has
  trigrams  BLOB    NOT NULL,
  PRIMARY KEY (tenant_id, world, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rule_size ON rule (tenant_id, world, size);

-- Who may write what: the half of row-level security that concerns writing. '*' is the host itself.
CREATE TRIGGER w_entry_put BEFORE INSERT ON entry WHEN NEW.owner IS NOT NULL AND coalesce(app_user_id(), '') NOT IN (NEW.owner, '*')
  BEGIN SELECT RAISE(ABORT, '42501:row_security'); END;
CREATE TRIGGER w_entry_change BEFORE UPDATE ON entry
  WHEN OLD.owner IS NOT NEW.owner OR (OLD.owner IS NOT NULL AND coalesce(app_user_id(), '') NOT IN (OLD.owner, '*'))
  BEGIN SELECT RAISE(ABORT, '42501:row_security'); END;
CREATE TRIGGER w_scope_put BEFORE INSERT ON scope WHEN NEW.owner IS NOT NULL AND coalesce(app_user_id(), '') NOT IN (NEW.owner, '*')
  BEGIN SELECT RAISE(ABORT, '42501:row_security'); END;
-- Whose a memory is stands in its name, and an entry is its memory's owner's.
CREATE TRIGGER w_scope_owner BEFORE INSERT ON scope
  WHEN NEW.owner IS NOT CASE WHEN NEW.memory_ref LIKE '~%/%' THEN substr(NEW.memory_ref, 2, instr(NEW.memory_ref, '/') - 2) END
  BEGIN SELECT RAISE(ABORT, '23514:scope_owner_is_named'); END;
CREATE TRIGGER w_entry_owner BEFORE INSERT ON entry WHEN NEW.owner IS NOT (SELECT s.owner FROM scope s WHERE s.scope_id = NEW.scope_id)
  BEGIN SELECT RAISE(ABORT, '23503:entry_owner'); END;

-- The rule-shadow guard, for insertions and for every update that could make one.
CREATE TRIGGER a_rule_shadow_put BEFORE INSERT ON entry WHEN NEW.typology = 'semantic' AND NEW.world <> '-' AND trgm_guarded(NEW.content)
  BEGIN SELECT RAISE(ABORT, '23514:entry_rule_shadow') WHERE EXISTS (SELECT 1 FROM rule r WHERE r.tenant_id = NEW.tenant_id
    AND r.world = NEW.world AND r.size BETWEEN trgm_least(NEW.content) AND trgm_most(NEW.content) AND trgm_shadows(r.trigrams, NEW.content)); END;
-- Whoever writes the same again (under other rules of redaction, say) makes nothing so that was not; and a text that was there before the
-- rule, and restates it already, may still lose a secret.
CREATE TRIGGER a_rule_shadow_change BEFORE UPDATE OF content, typology, world ON entry
  WHEN NEW.typology = 'semantic' AND NEW.world <> '-' AND trgm_guarded(NEW.content)
    AND (NEW.content, NEW.typology, NEW.world) IS NOT (OLD.content, OLD.typology, OLD.world)
  BEGIN SELECT RAISE(ABORT, '23514:entry_rule_shadow') WHERE EXISTS (SELECT 1 FROM rule r WHERE r.tenant_id = NEW.tenant_id
    AND r.world = NEW.world AND r.size BETWEEN trgm_least(NEW.content) AND trgm_most(NEW.content) AND trgm_shadows(r.trigrams, NEW.content))
    AND NOT (OLD.typology = 'semantic' AND OLD.world = NEW.world AND trgm_guarded(OLD.content)
      AND EXISTS (SELECT 1 FROM rule r WHERE r.tenant_id = NEW.tenant_id AND r.world = NEW.world
        AND r.size BETWEEN trgm_least(OLD.content) AND trgm_most(OLD.content) AND trgm_shadows(r.trigrams, OLD.content))); END;

-- At any instant a question has one answer: the windows of a slot never overlap (an empty one overlaps nothing). Whoever closes one
-- window and opens the next does it in this order.
CREATE TRIGGER one_truth_put BEFORE INSERT ON entry
  WHEN NEW.typology = 'semantic' AND NEW.slot IS NOT NULL AND (NEW.rev_to IS NULL OR NEW.removed_reason = 'invalidated')
    AND coalesce(NEW.valid_at <> NEW.invalid_at, 1)
  BEGIN SELECT RAISE(ABORT, '23P01:one_truth_per_slot') WHERE EXISTS (SELECT 1 FROM entry o WHERE o.tenant_id = NEW.tenant_id
    AND o.scope_id = NEW.scope_id AND o.slot = NEW.slot AND o.typology = 'semantic' AND o.erased_at IS NULL
    AND (o.rev_to IS NULL OR o.removed_reason = 'invalidated') AND coalesce(o.valid_at <> o.invalid_at, 1)
    AND (o.valid_at IS NULL OR NEW.invalid_at IS NULL OR o.valid_at < NEW.invalid_at)
    AND (NEW.valid_at IS NULL OR o.invalid_at IS NULL OR NEW.valid_at < o.invalid_at)); END;
CREATE TRIGGER one_truth_change AFTER UPDATE OF slot, typology, valid_at, invalid_at, rev_to, removed_reason, erased_at ON entry
  WHEN NEW.typology = 'semantic' AND NEW.slot IS NOT NULL AND NEW.erased_at IS NULL AND (NEW.rev_to IS NULL OR NEW.removed_reason = 'invalidated')
    AND coalesce(NEW.valid_at <> NEW.invalid_at, 1)
  BEGIN SELECT RAISE(ABORT, '23P01:one_truth_per_slot') WHERE EXISTS (SELECT 1 FROM entry o WHERE o.tenant_id = NEW.tenant_id
    AND o.scope_id = NEW.scope_id AND o.slot = NEW.slot AND o.row_id <> NEW.row_id AND o.typology = 'semantic' AND o.erased_at IS NULL
    AND (o.rev_to IS NULL OR o.removed_reason = 'invalidated') AND coalesce(o.valid_at <> o.invalid_at, 1)
    AND (o.valid_at IS NULL OR NEW.invalid_at IS NULL OR o.valid_at < NEW.invalid_at)
    AND (NEW.valid_at IS NULL OR o.invalid_at IS NULL OR NEW.valid_at < o.invalid_at)); END;

CREATE TRIGGER b_no_hard_delete BEFORE DELETE ON entry
  WHEN OLD.tier = 'persistent' OR EXISTS (SELECT 1 FROM action_link l WHERE l.row_id = OLD.row_id)
  BEGIN SELECT RAISE(ABORT, '23001:entry_no_hard_delete'); END;
CREATE TRIGGER b_link_stays BEFORE DELETE ON action_link BEGIN SELECT RAISE(ABORT, '42501:action_link'); END;
CREATE TRIGGER b_link_is_final BEFORE UPDATE ON action_link BEGIN SELECT RAISE(ABORT, '42501:action_link'); END;
CREATE TRIGGER c_immutable BEFORE UPDATE ON entry
  WHEN (NEW.id, NEW.tier, NEW.typology, NEW.created_at) IS NOT (OLD.id, OLD.tier, OLD.typology, OLD.created_at)
    OR (OLD.removed_reason = 'superseded' AND NEW.removed_reason = 'superseded' AND OLD.replaced_by IS NOT NULL
       AND NEW.replaced_by IS NOT OLD.replaced_by)
  BEGIN SELECT RAISE(ABORT, '23514:entry_immutable'); END;

-- What holds an entry is derived, never stored.
CREATE VIEW retention AS
  SELECT e.tenant_id, e.scope_id, e.row_id, e.tier, e.typology, CASE
      WHEN e.erased_at IS NOT NULL THEN 'skeleton'
      WHEN EXISTS (SELECT 1 FROM action_link l WHERE l.row_id = e.row_id) THEN 'referenced'
      WHEN e.rev_to IS NOT NULL THEN 'tombstoned'
      WHEN e.tier <> 'persistent' AND NOT EXISTS (SELECT 1 FROM record r WHERE r.tenant_id = e.tenant_id AND r.kind = 'session'
        AND r.topic = e.session) THEN 'orphaned'
      ELSE 'active' END AS state
  FROM entry e;
