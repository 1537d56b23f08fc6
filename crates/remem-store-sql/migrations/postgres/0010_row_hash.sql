-- A hash over all columns of each row: see the host's step `0004_row_hash`. `event` needs nothing, because its hashes chain;
-- `entry_tag` and `posting` are held against the texts and tags of entries, `owner_key` against `owner`, `direction` against
-- `bytes`. `upkeep` is the host's own, and has a
-- column of these steps.

DO $$ DECLARE t record; BEGIN
  FOR t IN SELECT * FROM (VALUES
      ('tenant_clock', 'r.tenant_id, r.revision, r.seq, r.at, r.chain, r.scopes'),
      ('scope', 'r.tenant_id, r.scope_id, r.memory_ref, r.documents, r.words, r.next_row, r.owner'),
      ('entry', 'r.tenant_id, r.scope_id, r.row_id, r.id, r.id_hash, r.tier, r.typology, r.content, r.tags,
        r.metadata, r.created_at, r.expires_at, r.written_by, r.written_by_run, r.scan, r.content_hash, r.rev_from,
        r.rev_to, r.removed_reason, r.removed_by_run, r.erased_at, r.owner, r.replaced_by, r.support, r.session,
        r.interaction, r.world, r.slot, r.valid_at, r.invalid_at, r.ended_at, r.trust, r.evidence'),
      ('lease', 'r.tenant_id, r.pass, r.holder, r.fence, r.until'),
      ('idempotency', 'r.tenant_id, r.operation, r.key, r.body, r.at, r.revision, r.outcomes'),
      ('record', 'r.tenant_id, r.kind, r.key, r.version, r.at, r.body, r.due, r.topic, r.source_scope, r.source_row'),
      ('review', 'r.tenant_id, r.kind, r.key, r.version, r.at, r.body, r.due'),
      ('snapshot', 'r.tenant_id, r.run_id, r.revision, r.at'),
      ('lineage', 'r.tenant_id, r.scope_id, r.row_id, r.source_scope, r.source_row'),
      ('entry_subject', 'r.tenant_id, r.subject, r.scope_id, r.row_id'),
      ('signature', 'r.tenant_id, r.scope_id, r.row_id, r.pass, r.signature'),
      ('action_link', 'r.tenant_id, r.scope_id, r.row_id, r.action, r.reference, r.linked_at, r.linked_by'),
      ('rule', 'r.tenant_id, r.world, r.id, r.body, r.at'),
      ('vector', 'r.tenant_id, r.scope_id, r.row_id, r.model, r.tier, r.typology, r.dimensions, r.bytes'),
      ('upkeep', 'r.tenant_id, r.next_expiry, r.next_due')
    ) AS listed (name, columns) LOOP
    EXECUTE format('ALTER TABLE remem.%I ADD COLUMN row_hash bytea', t.name);
    EXECUTE format('CREATE FUNCTION remem.%s(r remem.%I, format integer) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
      AS $sql$ SELECT CASE format WHEN 1 THEN pg_catalog.substr(pg_catalog.sha256(pg_catalog.record_send(ROW(%s))), 1, 15) END $sql$',
      t.name || '_hash', t.name, t.columns);
    EXECUTE format('CREATE FUNCTION remem.%s() RETURNS trigger LANGUAGE plpgsql
      AS $sql$ BEGIN NEW.row_hash := pg_catalog.byteacat(''\x01'', remem.%s(NEW, 1)); RETURN NEW; END $sql$',
      'put_' || t.name || '_hash', t.name || '_hash');
    EXECUTE format('CREATE TRIGGER z_row_hash BEFORE INSERT OR UPDATE ON remem.%I FOR EACH ROW EXECUTE FUNCTION remem.%s()',
      t.name, 'put_' || t.name || '_hash');
    INSERT INTO remem.hash_fill (name) SELECT t.name WHERE EXISTS (SELECT 1 FROM remem.tenant);
  END LOOP;
END $$;
