CREATE TABLE tenant (
  tenant_id  TEXT    NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,
  shapes     TEXT    NOT NULL CHECK (shapes IN ('redact', 'flag', 'off'))
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key (
  key_id      TEXT    NOT NULL,
  tenant_id   TEXT    NOT NULL REFERENCES tenant (tenant_id),
  label       TEXT    NOT NULL,
  hash        BLOB    NOT NULL UNIQUE,      -- keyed; the key itself is nowhere
  permissions TEXT    NOT NULL,             -- space separated
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER,
  revoked_at  INTEGER,
  PRIMARY KEY (tenant_id, key_id)
) STRICT, WITHOUT ROWID;
