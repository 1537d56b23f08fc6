-- A hash over all columns of each row, so that `remem doctor` sees damage: one byte that tells the format (which columns, in which
-- order), and 15 of a digest. `record_send` writes each column with its type and length, or that it is null, so that no two rows read
-- the same. A trigger keeps it, because many statements write these tables: whatever changes or erases a row makes its hash anew in
-- the same commit, and no hash of an erased text stays. Its name is the last one, so that it sees what the others made of the row.
-- Rows from before have none until `remem migrate` has made it, table by table, as `hash_fill` says. A column that is added later
-- makes a format of its own: a `WHEN 2` in the function, and `2` in the trigger's; rows of the older format stay as they are.

CREATE TABLE remem.hash_fill (              -- tables with rows from before this step
  name text COLLATE "C" NOT NULL PRIMARY KEY
);

DO $$ DECLARE t record; BEGIN
  FOR t IN SELECT * FROM (VALUES
      ('tenant', 'r.tenant_id, r.created_at, r.shapes'),
      ('api_key', 'r.tenant_id, r.key_id, r.label, r.hash, r.permissions, r.created_at, r.expires_at, r.revoked_at,
        r.principal, r.trust'),
      ('host_secret', 'r.one, r.secret')
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
