-- Memories that belong to one user of a tenant, and leases for passes. The twin of the PostgreSQL step of the same name.

ALTER TABLE scope ADD COLUMN owner TEXT CHECK (owner <> '');
ALTER TABLE entry ADD COLUMN owner TEXT CHECK (owner <> '');

CREATE TABLE lease (                        -- who runs a pass, until when; `fence` grows with each change of hands
  tenant_id TEXT    NOT NULL,
  pass      TEXT    NOT NULL,
  holder    TEXT    NOT NULL,
  fence     INTEGER NOT NULL,
  until     INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, pass)
) STRICT, WITHOUT ROWID;
