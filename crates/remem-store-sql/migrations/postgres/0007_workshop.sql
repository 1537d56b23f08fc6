-- Tiers, typologies and their anchors; what is true from when to when; who said it; which actions rest on it; and the rules that no
-- memory may restate. What a column means is told in `docs/workshop.md`.

CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;
CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA public;

-- Memories are numbered by the clock: whoever sees only some of them cannot know the last number. The policies hide clocks and
-- memories from their owner, too: it steps over them here, and the walls force them on it again before anybody else sees the tables.
ALTER TABLE remem.tenant_clock ADD COLUMN scopes bigint NOT NULL DEFAULT 0;
ALTER TABLE remem.tenant_clock NO FORCE ROW LEVEL SECURITY;
ALTER TABLE remem.scope NO FORCE ROW LEVEL SECURITY;
UPDATE remem.tenant_clock c SET scopes = coalesce((SELECT max(s.scope_id) FROM remem.scope s WHERE s.tenant_id = c.tenant_id), 0);

-- Whose a memory is stands in its name. NOT VALID: an older memory may have such a name and no owner; nobody reads it under one.
ALTER TABLE remem.scope ADD CONSTRAINT scope_owner_is_named
  CHECK (owner IS NOT DISTINCT FROM substring(memory_ref from '^~([^/]+)/')) NOT VALID;

ALTER TABLE remem.entry ADD COLUMN session     text COLLATE "C";   -- the session that it ends with
ALTER TABLE remem.entry ADD COLUMN interaction text COLLATE "C";   -- the chat thread that it ends with
ALTER TABLE remem.entry ADD COLUMN world       text COLLATE "C" DEFAULT '-'; -- whose rules it may not restate; '-' has none
ALTER TABLE remem.entry ADD COLUMN slot        text COLLATE "C";   -- the one question that it answers
ALTER TABLE remem.entry ADD COLUMN valid_at    bigint;             -- semantic: true from …
ALTER TABLE remem.entry ADD COLUMN invalid_at  bigint;             -- … until
ALTER TABLE remem.entry ADD COLUMN ended_at    bigint;             -- when it was taken away (procedural: superseded)
ALTER TABLE remem.entry ADD COLUMN trust       text NOT NULL DEFAULT 'model'
  CHECK (trust IN ('untrusted', 'model', 'tool', 'action', 'operator'));
ALTER TABLE remem.entry ADD COLUMN evidence    text NOT NULL DEFAULT ''; -- digests of its sources, no content
ALTER TABLE remem.entry ALTER COLUMN world DROP DEFAULT;
ALTER TABLE remem.entry ADD CONSTRAINT anchor_interaction CHECK ((tier = 'interaction') = (interaction IS NOT NULL)) NOT VALID;
ALTER TABLE remem.entry ADD CONSTRAINT anchor_session CHECK (tier = 'persistent' OR session IS NOT NULL) NOT VALID;
ALTER TABLE remem.entry ADD CONSTRAINT world_when_semantic CHECK (typology <> 'semantic' OR world IS NOT NULL);
ALTER TABLE remem.entry ADD CONSTRAINT validity_order CHECK (invalid_at >= coalesce(valid_at, invalid_at));
ALTER TABLE remem.entry ADD CONSTRAINT validity_is_semantic CHECK (typology = 'semantic' OR (valid_at IS NULL AND invalid_at IS NULL));
ALTER TABLE remem.entry DROP CONSTRAINT entry_removed_reason_check;
ALTER TABLE remem.entry ADD CONSTRAINT entry_removed_reason_check CHECK (removed_reason IN
  ('deleted', 'expired', 'forgotten', 'merged', 'superseded', 'compacted', 'invalidated', 'closed', 'held'));

-- At any instant a question has one answer: the windows of a slot never overlap (an empty one overlaps nothing).
ALTER TABLE remem.entry ADD CONSTRAINT one_truth_per_slot EXCLUDE USING gist
  (tenant_id WITH =, scope_id WITH =, slot WITH =, int8range(valid_at, invalid_at) WITH &&)
  WHERE (typology = 'semantic' AND slot IS NOT NULL AND erased_at IS NULL AND (rev_to IS NULL OR removed_reason = 'invalidated'))
  DEFERRABLE INITIALLY DEFERRED;
-- And there is one way to do a thing. Constraints rather than unique indexes, which could not wait for the end of a commit.
ALTER TABLE remem.entry ADD CONSTRAINT one_active_procedure EXCLUDE USING gist (tenant_id WITH =, scope_id WITH =, slot WITH =)
  WHERE (typology = 'procedural' AND slot IS NOT NULL AND rev_to IS NULL) DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX entry_slot    ON remem.entry (tenant_id, scope_id, slot) WHERE slot IS NOT NULL;
CREATE INDEX entry_session ON remem.entry (tenant_id, scope_id, session, created_at DESC, left(id, 100) DESC)
  WHERE session IS NOT NULL AND rev_to IS NULL;
DROP INDEX remem.entry_spent;
CREATE INDEX entry_spent   ON remem.entry (tenant_id, rev_to) WHERE erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed');
CREATE INDEX entry_faded   ON remem.entry (tenant_id, invalid_at) WHERE invalid_at IS NOT NULL AND erased_at IS NULL;

CREATE TABLE remem.action_link (            -- an action that rests on an entry; added, never changed
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope_id  bigint NOT NULL,
  row_id    bigint NOT NULL,
  action    text   COLLATE "C" NOT NULL,    -- what was done
  reference text   COLLATE "C" NOT NULL,    -- its name where it was done
  linked_at bigint NOT NULL,
  linked_by text,                           -- principal
  PRIMARY KEY (tenant_id, scope_id, row_id, action, reference),
  FOREIGN KEY (tenant_id, scope_id, row_id) REFERENCES remem.entry (tenant_id, scope_id, row_id) ON DELETE RESTRICT
);

CREATE TABLE remem.rule (                   -- canonical texts of a world: no memory, and no memory may restate them
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  world     text   COLLATE "C" NOT NULL CHECK (world <> '-'),
  id        text   COLLATE "C" NOT NULL,
  body      text   NOT NULL,                -- redacted
  at        bigint NOT NULL,
  PRIMARY KEY (tenant_id, world, id)
);
-- A signature has a bit for each of 6,144 trigrams. A rule of 200 characters has about as many trigrams as that has letters: in a shorter
-- signature (64 bytes) their bits fill the inner pages, and a look reads all of the index.
CREATE INDEX rule_body ON remem.rule USING gist (tenant_id, world, body public.gist_trgm_ops (siglen = 768));

-- Whoever serves asks this, and so does the trigger. SECURITY DEFINER: under a policy the planner would not let the trigram index
-- near the table, since its operators may tell of what they compare. The owner of `rule` is nobody who logs in; the acting
-- tenant is compared here, and no caller can name another. U+0000, which a text of the database cannot hold, is a space: neither is part of a word.
-- COLLATE: a function's texts take the order of its arguments, here the bytes' of `world`, and the index would not fit them.
CREATE FUNCTION remem.shadowed_rule(world_of text, content bytea) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER
  SET search_path = pg_catalog SET pg_trgm.similarity_threshold = 0.85 SET enable_seqscan = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE plain bytea := content; said text COLLATE "default"; hit text;
BEGIN
  WHILE position('\x00'::bytea in plain) > 0 LOOP
    plain := overlay(plain placing '\x20'::bytea from position('\x00'::bytea in plain) for 1);
  END LOOP;
  said := convert_from(plain, 'UTF8');
  IF length(said) < 100 THEN RETURN NULL; END IF;
  SELECT r.id INTO hit FROM remem.rule r WHERE r.tenant_id = remem.current_tenant() AND r.world = world_of AND r.body OPERATOR(public.%) said
    AND public.similarity(r.body, said) > 0.85::real LIMIT 1;
  RETURN hit;
END $$;
REVOKE EXECUTE ON FUNCTION remem.shadowed_rule(text, bytea) FROM PUBLIC;

CREATE FUNCTION remem.refuse_shadow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE hit text := remem.shadowed_rule(NEW.world, NEW.content);
BEGIN
  -- A text that was there before the rule, and restates it already, may still lose a secret.
  IF hit IS NOT NULL AND TG_OP = 'UPDATE' THEN
    IF OLD.typology = 'semantic' AND OLD.world = NEW.world AND remem.shadowed_rule(OLD.world, OLD.content) IS NOT NULL THEN
      RETURN NEW;
    END IF;
  END IF;
  IF hit IS NOT NULL THEN                   -- names only, never a text
    RAISE EXCEPTION 'a memory restates a rule' USING ERRCODE = '23514', CONSTRAINT = 'entry_rule_shadow', SCHEMA = 'remem', TABLE = 'entry',
      DETAIL = hit;
  END IF;
  RETURN NEW;
END $$;
REVOKE EXECUTE ON FUNCTION remem.refuse_shadow() FROM PUBLIC;
-- The conditions are those of the guard; they keep every other write from paying for it.
CREATE TRIGGER a_rule_shadow_put BEFORE INSERT ON remem.entry FOR EACH ROW
  WHEN (NEW.typology = 'semantic' AND NEW.world <> '-' AND octet_length(NEW.content) >= 100) EXECUTE FUNCTION remem.refuse_shadow();
-- Whoever writes the same again (under other rules of redaction, say) makes nothing so that was not.
CREATE TRIGGER a_rule_shadow_change BEFORE UPDATE OF content, typology, world ON remem.entry FOR EACH ROW
  WHEN (NEW.typology = 'semantic' AND NEW.world <> '-' AND octet_length(NEW.content) >= 100
    AND (NEW.content, NEW.typology, NEW.world) IS DISTINCT FROM (OLD.content, OLD.typology, OLD.world)) EXECUTE FUNCTION remem.refuse_shadow();

CREATE FUNCTION remem.refuse_delete() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  IF OLD.tier = 'persistent' OR EXISTS (SELECT 1 FROM remem.action_link l WHERE l.tenant_id = OLD.tenant_id AND l.scope_id = OLD.scope_id
      AND l.row_id = OLD.row_id) THEN
    RAISE EXCEPTION 'an entry that must stay' USING ERRCODE = '23001', CONSTRAINT = 'entry_no_hard_delete', SCHEMA = 'remem', TABLE = 'entry';
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER b_no_hard_delete BEFORE DELETE ON remem.entry FOR EACH ROW EXECUTE FUNCTION remem.refuse_delete();

CREATE FUNCTION remem.refuse_rewriting_history() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  IF (NEW.id, NEW.tier, NEW.typology, NEW.created_at, NEW.owner) IS DISTINCT FROM (OLD.id, OLD.tier, OLD.typology, OLD.created_at, OLD.owner)
     OR (OLD.removed_reason = 'superseded' AND NEW.removed_reason = 'superseded' AND OLD.replaced_by IS NOT NULL
       AND NEW.replaced_by IS DISTINCT FROM OLD.replaced_by) THEN
    RAISE EXCEPTION 'what cannot change' USING ERRCODE = '23514', CONSTRAINT = 'entry_immutable', SCHEMA = 'remem', TABLE = 'entry';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER c_immutable BEFORE UPDATE ON remem.entry FOR EACH ROW EXECUTE FUNCTION remem.refuse_rewriting_history();

-- What holds an entry is derived, never stored.
CREATE VIEW remem.retention WITH (security_invoker = true) AS
  SELECT e.tenant_id, e.scope_id, e.row_id, e.tier, e.typology, CASE
      WHEN e.erased_at IS NOT NULL THEN 'skeleton'
      WHEN EXISTS (SELECT 1 FROM remem.action_link l WHERE l.tenant_id = e.tenant_id AND l.scope_id = e.scope_id AND l.row_id = e.row_id) THEN 'referenced'
      WHEN e.rev_to IS NOT NULL THEN 'tombstoned'
      WHEN e.tier <> 'persistent' AND NOT EXISTS (SELECT 1 FROM remem.record r WHERE r.tenant_id = e.tenant_id AND r.kind = 'session'
        AND r.topic = e.session) THEN 'orphaned'
      ELSE 'active' END AS state
  FROM remem.entry e;
