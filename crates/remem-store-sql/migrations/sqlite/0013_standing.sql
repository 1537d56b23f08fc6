-- What every recall begins with: procedures, and answers to questions, the most trusted and newest first. They are few, and so is
-- what this index holds; without it, a recall reads the whole memory to find that there are none.
CREATE INDEX entry_standing ON entry (tenant_id, scope_id, typology, trust, created_at DESC, id DESC)
  WHERE rev_to IS NULL AND (typology = 'procedural' OR slot IS NOT NULL);
