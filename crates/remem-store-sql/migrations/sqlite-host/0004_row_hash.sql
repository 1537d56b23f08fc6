-- A hash over all columns of each row: see the tenants' step `0010_row_hash`.

CREATE TABLE hash_fill (                    -- tables with rows from before this step
  name TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

ALTER TABLE tenant ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_tenant_hash_put AFTER INSERT ON tenant BEGIN
  UPDATE tenant SET row_hash = row_hash_of(1, tenant_id, created_at, shapes)
    WHERE tenant_id = NEW.tenant_id; END;
CREATE TRIGGER z_tenant_hash_change AFTER UPDATE OF tenant_id, created_at, shapes ON tenant BEGIN
  UPDATE tenant SET row_hash = row_hash_of(1, tenant_id, created_at, shapes)
    WHERE tenant_id = NEW.tenant_id; END;
INSERT INTO hash_fill (name) SELECT 'tenant' WHERE EXISTS (SELECT 1 FROM tenant);

ALTER TABLE api_key ADD COLUMN row_hash BLOB;
CREATE TRIGGER z_api_key_hash_put AFTER INSERT ON api_key BEGIN
  UPDATE api_key SET row_hash = row_hash_of(1, key_id, tenant_id, label, hash, permissions, created_at, expires_at,
    revoked_at, principal, trust)
    WHERE (tenant_id, key_id)
      = (NEW.tenant_id, NEW.key_id); END;
CREATE TRIGGER z_api_key_hash_change AFTER UPDATE OF key_id, tenant_id, label, hash, permissions, created_at,
    expires_at, revoked_at, principal, trust ON api_key BEGIN
  UPDATE api_key SET row_hash = row_hash_of(1, key_id, tenant_id, label, hash, permissions, created_at, expires_at,
    revoked_at, principal, trust)
    WHERE (tenant_id, key_id)
      = (NEW.tenant_id, NEW.key_id); END;
INSERT INTO hash_fill (name) SELECT 'api_key' WHERE EXISTS (SELECT 1 FROM api_key);
