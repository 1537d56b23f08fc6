-- What the entries of a memory add up to, so that statistics need not count them: the rows that are part of it, expired or not. A
-- commit changes the totals together with the entries; a reader subtracts those that are not visible at its instant, which the
-- indexes find. The totals follow from the entries and are held against them (`verify`), so the row's hash does not cover them.

ALTER TABLE scope ADD COLUMN entries       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN content_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE scope ADD COLUMN expiring      INTEGER NOT NULL DEFAULT 0; -- that have an end
ALTER TABLE scope ADD COLUMN with_subject  INTEGER NOT NULL DEFAULT 0; -- that name a subject

UPDATE scope SET (entries, content_bytes, expiring, with_subject) = (
  SELECT count(*), coalesce(sum(octet_length(e.content)), 0), count(e.expires_at),
      count(CASE WHEN EXISTS (SELECT 1 FROM entry_subject g WHERE g.tenant_id = e.tenant_id AND g.scope_id = e.scope_id
        AND g.row_id = e.row_id) THEN 1 END)
    FROM entry e INDEXED BY entry_list
    WHERE e.tenant_id = scope.tenant_id AND e.scope_id = scope.scope_id AND e.rev_to IS NULL);

-- Statements that are over and still part of their memory, and those that were written before they are true.
CREATE INDEX entry_over  ON entry (tenant_id, scope_id, invalid_at) WHERE rev_to IS NULL AND invalid_at IS NOT NULL;
CREATE INDEX entry_later ON entry (tenant_id, scope_id, valid_at) WHERE rev_to IS NULL AND valid_at > created_at;

-- The answers of a slot that take a part of its time, by the end of their windows: a commit loads those that a new one overlaps.
CREATE INDEX entry_answer ON entry (tenant_id, scope_id, slot, invalid_at)
  WHERE slot IS NOT NULL AND erased_at IS NULL AND (rev_to IS NULL OR removed_reason = 'invalidated');
