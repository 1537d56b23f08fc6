//! The builder methods of a batch for actions that rest on entries, and for the rules of worlds.

use super::{ActionText, Batch, Change, StoredText};
use crate::admission::RuleText;
use crate::ids::{EntryId, MemoryRef, RuleId, WorldId};

impl Batch {
    /// Notes that an action rests on an entry.
    #[must_use]
    pub fn link_action(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        action: String,
        reference: String,
    ) -> Batch {
        let action = ActionText { action, reference };
        self.changes.push(Change::LinkAction {
            memory_ref,
            id,
            action,
        });
        self
    }

    /// Replaces the text of an action that rests on an entry. The new text was redacted by the
    /// current rules, and no other action of the entry has it.
    #[must_use]
    pub fn rewrite_action(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        was: ActionText,
        action: ActionText,
    ) -> Batch {
        self.changes.push(Change::RewriteAction {
            memory_ref,
            id,
            expected: was,
            action,
        });
        self
    }

    /// Replaces the text of a rule if it is still the text that was read.
    #[must_use]
    pub fn rewrite_rule(
        mut self,
        world: WorldId,
        id: RuleId,
        was: String,
        body: RuleText,
    ) -> Batch {
        let was = StoredText(was);
        self.changes.push(Change::RewriteRule {
            world,
            id,
            expected: was,
            body,
        });
        self
    }

    /// Writes a rule, or deletes it (`None`). Must come before the entries that the batch stores,
    /// because they are checked against it.
    ///
    /// # Panics
    /// If the world is the one without rules.
    #[must_use]
    pub fn set_rule(mut self, world: WorldId, id: RuleId, body: Option<RuleText>) -> Batch {
        assert!(!world.is_none(), "the world without rules has none");
        self.changes.push(Change::SetRule { world, id, body });
        self
    }
}
