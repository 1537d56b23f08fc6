-- Memories that belong to one user of a tenant, and leases for passes on many nodes.
-- A row without an owner is the tenant's. Foreign keys carry the owner, because their checks do not see policies: without
-- it, a user could hang rows on another user's memory.

ALTER TABLE remem.scope ADD COLUMN owner text COLLATE "C" CHECK (owner <> '');
ALTER TABLE remem.scope ADD COLUMN owner_key text COLLATE "C" NOT NULL GENERATED ALWAYS AS (coalesce('=' || owner, '*')) STORED;
ALTER TABLE remem.scope ADD UNIQUE (tenant_id, scope_id, owner_key);

ALTER TABLE remem.entry ADD COLUMN owner text COLLATE "C" CHECK (owner <> '');
ALTER TABLE remem.entry ADD COLUMN owner_key text COLLATE "C" NOT NULL GENERATED ALWAYS AS (coalesce('=' || owner, '*')) STORED;
ALTER TABLE remem.entry DROP CONSTRAINT entry_tenant_id_scope_id_fkey;
ALTER TABLE remem.entry ADD FOREIGN KEY (tenant_id, scope_id, owner_key) REFERENCES remem.scope (tenant_id, scope_id, owner_key);

CREATE TABLE remem.lease (                  -- who runs a pass for a tenant, until when; `fence` grows with each change of hands
  tenant_id text   COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  pass      text   COLLATE "C" NOT NULL,
  holder    text   NOT NULL,
  fence     bigint NOT NULL,
  until     bigint NOT NULL,
  PRIMARY KEY (tenant_id, pass)
);
