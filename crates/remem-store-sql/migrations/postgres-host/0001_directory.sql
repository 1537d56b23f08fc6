-- Tables of this series are the host's own: tenants, keys, upkeep. They hold names, digests and instants, never content.
-- Who may do what with them, and the policies, are in postgres-walls.sql.

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
