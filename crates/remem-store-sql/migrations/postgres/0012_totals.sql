-- What the entries of a memory add up to, so that statistics need not count them: the rows that are part of it, expired or not. A
-- commit changes the totals together with the entries; a reader subtracts those that are not visible at its instant, which the
-- indexes find. The totals follow from the entries and are held against them (`verify`), so the row's hash does not cover them.

ALTER TABLE remem.scope ADD COLUMN entries       bigint NOT NULL DEFAULT 0;
ALTER TABLE remem.scope ADD COLUMN content_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE remem.scope ADD COLUMN expiring      bigint NOT NULL DEFAULT 0; -- that have an end
ALTER TABLE remem.scope ADD COLUMN with_subject  bigint NOT NULL DEFAULT 0; -- that name a subject

-- The policies hide the rows from their owner, too: it steps over them here, and the walls force them on it again before anybody
-- else sees the tables.
ALTER TABLE remem.scope NO FORCE ROW LEVEL SECURITY;
ALTER TABLE remem.entry NO FORCE ROW LEVEL SECURITY;
ALTER TABLE remem.entry_subject NO FORCE ROW LEVEL SECURITY;
UPDATE remem.scope s SET entries = t.entries, content_bytes = t.content_bytes, expiring = t.expiring, with_subject = t.with_subject
  FROM (SELECT e.tenant_id, e.scope_id, count(*) AS entries, sum(octet_length(e.content)) AS content_bytes,
          count(e.expires_at) AS expiring, count(g.row_id) AS with_subject
        FROM remem.entry e
        LEFT JOIN (SELECT DISTINCT tenant_id, scope_id, row_id FROM remem.entry_subject) g USING (tenant_id, scope_id, row_id)
        WHERE e.rev_to IS NULL GROUP BY e.tenant_id, e.scope_id) t
  WHERE s.tenant_id = t.tenant_id AND s.scope_id = t.scope_id;

-- Statements that are over and still part of their memory, and those that were written before they are true.
CREATE INDEX entry_over  ON remem.entry (tenant_id, scope_id, invalid_at) WHERE rev_to IS NULL AND invalid_at IS NOT NULL;
CREATE INDEX entry_later ON remem.entry (tenant_id, scope_id, valid_at) WHERE rev_to IS NULL AND valid_at > created_at;

-- The answers of a slot that take a part of its time, by the end of their windows: a commit loads those that a new one overlaps.
CREATE INDEX entry_answer ON remem.entry (tenant_id, scope_id, slot, invalid_at)
  WHERE slot IS NOT NULL AND erased_at IS NULL AND (rev_to IS NULL OR removed_reason = 'invalidated');
