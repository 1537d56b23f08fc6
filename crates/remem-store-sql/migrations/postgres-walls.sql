-- The second wall: who is acting, what the policies let through, who may do what. Not a step: `remem migrate` puts it up
-- anew every time, so that running it mends what somebody took down. Runs in the transaction of the steps, as the owner;
-- {app}, {worker} and {reviewer} stand for the roles. `postgres/guard.rs` knows these texts and refuses to serve with others.

-- Who is acting: set for one transaction by the code that hands out transactions, and nothing (NULL, so no row) otherwise.
-- `nullif` because a setting that was local to an earlier transaction reads as '' afterwards, not as absent.
CREATE OR REPLACE FUNCTION remem.current_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT nullif(current_setting('app.tenant_id', true), '') $$;
CREATE OR REPLACE FUNCTION remem.current_user_id() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT nullif(current_setting('app.user_id', true), '') $$;
CREATE OR REPLACE FUNCTION remem.current_key() RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT decode(nullif(current_setting('app.key_hash', true), ''), 'hex') $$;

-- Every policy goes before it comes back; none that was added by hand stays.
DO $$ DECLARE p record; BEGIN
  FOR p IN SELECT polname, polrelid::regclass AS tab FROM pg_policy WHERE polrelid IN
      (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'remem') LOOP
    EXECUTE format('DROP POLICY %I ON %s', p.polname, p.tab);
  END LOOP;
END $$;

-- One policy a table, with all of its conditions: an engine that copies policies to other servers may forget which of two restrict, and
-- then each lets through what the other one hides. A further policy would widen it; `guard.rs` refuses every one that is not here.
-- A user of a tenant sees its own rows and those that are the tenant's; '*', which no user can be called, is the host itself. A key is
-- found by presenting its digest, or listed inside its own tenant; nothing enumerates the keys of all.
DO $$ DECLARE t text; of_tenant text; seen text; BEGIN
  FOREACH t IN ARRAY ARRAY['tenant_clock', 'scope', 'entry', 'entry_tag', 'posting', 'event', 'idempotency', 'record', 'review', 'snapshot', 'lineage', 'entry_subject', 'signature', 'vector', 'lease', 'action_link', 'rule', 'api_key', 'upkeep'] LOOP
    EXECUTE format('ALTER TABLE remem.%I ENABLE ROW LEVEL SECURITY', t);
    -- Not on the owner of `rule`, as whom the guard looks for the rule that a memory restates: see 0007_workshop.sql.
    IF t <> 'rule' THEN
      EXECUTE format('ALTER TABLE remem.%I FORCE ROW LEVEL SECURITY', t);
    END IF;
    of_tenant := 'tenant_id = remem.current_tenant()';
    IF t IN ('scope', 'entry') THEN
      of_tenant := of_tenant || ' AND (owner IS NULL OR remem.current_user_id() IN (owner, ''*''))';
    END IF;
    seen := of_tenant || CASE t WHEN 'api_key' THEN ' OR hash = remem.current_key()' ELSE '' END;
    EXECUTE format('CREATE POLICY tenant_wall ON remem.%I USING (%s) WITH CHECK (%s)', t, seen, of_tenant);
  END LOOP;
END $$;
-- The one table that a worker reads for all tenants: names and instants.
CREATE POLICY worker_rows ON remem.upkeep TO {worker} USING (true) WITH CHECK (true);

-- The same vectors as pgvector takes them, if it is there; whole numbers, so that it compares exactly what `bytes` says. One index for
-- each kind of entry that there is: a plan needs these very conditions. Another number of components is compared one by one, and so is a
-- kind that a memory has few of, which `vector_kind` is for; its condition keeps it away from who looks for the vector of one entry,
-- where the planner would take it while it knows nothing of a new table, and read the whole memory each time.
DO $$ DECLARE cell text[]; BEGIN
  IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector') THEN
    ALTER TABLE remem.vector ADD COLUMN IF NOT EXISTS direction public.halfvec;
    CREATE INDEX IF NOT EXISTS vector_kind ON remem.vector (tenant_id, scope_id, model, tier, typology)
      WHERE dimensions = 384;
    FOREACH cell SLICE 1 IN ARRAY ARRAY[['interaction', 'episodic'], ['session', 'episodic'], ['session', 'semantic'],
        ['session', 'procedural'], ['persistent', 'semantic'], ['persistent', 'procedural']] LOOP
      EXECUTE format('CREATE INDEX IF NOT EXISTS vector_near_%s_%s ON remem.vector
        USING hnsw ((direction::public.halfvec(384)) public.halfvec_cosine_ops)
        WHERE tier = %L AND typology = %L AND dimensions = 384', cell[1], cell[2], cell[1], cell[2]);
    END LOOP;
  END IF;
END $$;

-- Rights. Events and skeletons are never deleted, the log is never rewritten, and nobody may TRUNCATE (policies do not see it).
REVOKE ALL ON ALL TABLES IN SCHEMA remem FROM PUBLIC, {app}, {worker}, {reviewer};
REVOKE SELECT (tenant_id, kind, key, version, at, body, due) ON remem.review FROM {app}, {worker}, {reviewer};
GRANT USAGE ON SCHEMA remem TO {app}, {worker}, {reviewer};
GRANT SELECT ON remem.schema_step, remem.hash_fill TO {app}, {worker}, {reviewer};
GRANT SELECT, INSERT, UPDATE ON remem.tenant, remem.api_key, remem.upkeep TO {app};
GRANT SELECT, INSERT ON remem.host_secret TO {app};
GRANT SELECT, INSERT, UPDATE ON remem.tenant_clock, remem.scope, remem.entry TO {app};
GRANT SELECT, INSERT, DELETE ON remem.entry_tag, remem.posting, remem.entry_subject TO {app};
GRANT SELECT, INSERT, UPDATE, DELETE ON remem.signature TO {app};
GRANT SELECT, INSERT, DELETE ON remem.vector TO {app};
GRANT SELECT, INSERT ON remem.lineage, remem.action_link TO {app}; -- an action that rests on an entry is never taken back
GRANT UPDATE (action, reference) ON remem.action_link TO {app}; -- its words can lose a secret, and go when the entry is forgotten
GRANT SELECT, INSERT, UPDATE, DELETE ON remem.rule TO {app};
GRANT SELECT ON remem.retention TO {app}, {worker};
GRANT EXECUTE ON FUNCTION remem.shadowed_rule(text, bytea) TO {app};
GRANT SELECT, INSERT ON remem.event, remem.idempotency TO {app};
GRANT SELECT, INSERT, UPDATE, DELETE ON remem.record TO {app};
-- What is under review is no part of what runs: whoever serves runs can write it and cannot read what it says.
GRANT INSERT, UPDATE, DELETE, SELECT (tenant_id, kind, key, version, due) ON remem.review TO {app};
GRANT SELECT ON remem.review TO {reviewer};
GRANT SELECT, INSERT, DELETE ON remem.snapshot TO {app};
GRANT SELECT, UPDATE ON remem.lease TO {app};           -- UPDATE to lock the row while a fenced batch commits
GRANT SELECT ON remem.tenant TO {worker};
GRANT SELECT, UPDATE, DELETE ON remem.upkeep TO {worker};
GRANT SELECT ON remem.scope, remem.entry, remem.entry_tag, remem.posting, remem.event, remem.record, remem.snapshot,
  remem.lineage, remem.entry_subject, remem.signature, remem.vector, remem.action_link, remem.rule TO {worker};
GRANT SELECT, UPDATE ON remem.tenant_clock TO {worker}; -- UPDATE to lock it, nothing else
GRANT SELECT, DELETE ON remem.idempotency TO {worker};
GRANT SELECT, INSERT, UPDATE ON remem.lease TO {worker};
