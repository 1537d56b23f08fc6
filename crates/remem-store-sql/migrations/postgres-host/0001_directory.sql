-- Runs inside one transaction, as {owner}; {app} and {worker} stand for the roles that `remem migrate` prepared.
-- Tables of this series are the host's own: tenants, keys, upkeep. They hold names, digests and instants, never content.

-- Who is acting: set for one transaction by the code that hands out transactions, and nothing (NULL, so no row) otherwise.
-- `nullif` because a setting that was local to an earlier transaction reads as '' afterwards, not as absent.
CREATE FUNCTION remem.current_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT nullif(current_setting('app.tenant_id', true), '') $$;
CREATE FUNCTION remem.current_user_id() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT nullif(current_setting('app.user_id', true), '') $$;
CREATE FUNCTION remem.current_key() RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT decode(nullif(current_setting('app.key_hash', true), ''), 'hex') $$;

CREATE TABLE remem.tenant (                 -- names and settings: what an administrator of the host lists
  tenant_id  text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (tenant_id <> ''),
  created_at bigint NOT NULL,
  shapes     text   NOT NULL CHECK (shapes IN ('redact', 'flag', 'off'))
);

CREATE TABLE remem.api_key (
  tenant_id   text   COLLATE "C" NOT NULL REFERENCES remem.tenant (tenant_id),
  key_id      text   COLLATE "C" NOT NULL,
  label       text   NOT NULL,
  hash        bytea  NOT NULL,              -- keyed; the key itself is nowhere
  permissions text   NOT NULL,              -- space separated
  created_at  bigint NOT NULL,
  expires_at  bigint,
  revoked_at  bigint,
  PRIMARY KEY (tenant_id, key_id)
);
-- Not unique across tenants: an error would tell that a key exists. The digest of 256 random bits does not repeat, and of
-- a chosen key that two tenants share, the older record counts.
CREATE UNIQUE INDEX api_key_of_tenant ON remem.api_key (tenant_id, hash);
CREATE INDEX api_key_hash ON remem.api_key (hash);

CREATE TABLE remem.host_secret (            -- the key of all keyed digests, unless a file outside the database holds it
  one    boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
  secret bytea   NOT NULL CHECK (octet_length(secret) = 32)
);

CREATE TABLE remem.upkeep (                 -- where passes may have work: the one table a worker reads for all tenants
  tenant_id   text   COLLATE "C" NOT NULL PRIMARY KEY,
  next_expiry bigint NOT NULL
);
CREATE INDEX upkeep_due ON remem.upkeep (next_expiry);

-- A key is found by presenting its digest, or listed inside its own tenant; nothing enumerates the keys of all.
ALTER TABLE remem.api_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE remem.api_key FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_wall ON remem.api_key AS RESTRICTIVE
  USING (tenant_id = remem.current_tenant() OR hash = remem.current_key())
  WITH CHECK (tenant_id = remem.current_tenant());
CREATE POLICY tenant_rows ON remem.api_key USING (true) WITH CHECK (true);

ALTER TABLE remem.upkeep ENABLE ROW LEVEL SECURITY;
ALTER TABLE remem.upkeep FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_wall ON remem.upkeep AS RESTRICTIVE TO {app}
  USING (tenant_id = remem.current_tenant()) WITH CHECK (tenant_id = remem.current_tenant());
CREATE POLICY tenant_rows ON remem.upkeep USING (true) WITH CHECK (true);

GRANT SELECT, INSERT, UPDATE ON remem.tenant, remem.api_key, remem.upkeep TO {app};
GRANT SELECT, INSERT ON remem.host_secret TO {app};
GRANT SELECT ON remem.tenant TO {worker};
GRANT SELECT, UPDATE, DELETE ON remem.upkeep TO {worker};
