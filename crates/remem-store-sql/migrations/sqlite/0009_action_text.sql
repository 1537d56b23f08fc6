-- What an action is called can lose a secret, and goes when the entry is forgotten. That it rested on the entry, when and whose it was
-- stay as they are.
DROP TRIGGER b_link_is_final;
CREATE TRIGGER b_link_is_final BEFORE UPDATE ON action_link
  WHEN (NEW.tenant_id, NEW.scope_id, NEW.row_id, NEW.linked_at, NEW.linked_by)
    IS NOT (OLD.tenant_id, OLD.scope_id, OLD.row_id, OLD.linked_at, OLD.linked_by)
  BEGIN SELECT RAISE(ABORT, '42501:action_link'); END;
