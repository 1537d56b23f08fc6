//! Rules of worlds. Whether a text restates one is decided by the database, by its index: to load
//! the similar rules, so that the ledger could decide, would need the same look-up before the guard
//! does it again, and it is the dearest part of a guarded write (8.4 ms instead of 2.1 on
//! PostgreSQL, `docs/benchmarks.md#guard`). It would save a second transaction for the neighbours
//! in a group of a text that restates a rule, which is rare.

use super::ChangeOutcome;
use super::apply::Applier;
use super::row::RuleRow;
use crate::admission::RuleText;
use crate::batch::StoredText;
use crate::ids::{RuleId, WorldId};

impl Applier<'_> {
    /// Writes a rule, or deletes it.
    pub(super) fn set_rule(
        &mut self,
        world: &WorldId,
        id: &RuleId,
        body: Option<&RuleText>,
    ) -> ChangeOutcome {
        let key = (world.clone(), id.clone());
        if body.is_none() && !self.working.rules.contains(&key) {
            return ChangeOutcome::NoChange;
        }
        self.advance_revision();
        let Some(body) = body else {
            self.working.rules.remove(&key);
            return ChangeOutcome::Removed;
        };
        let rule = RuleRow {
            body: body.as_str().to_owned(),
            written_at: Some(self.working.clock.at),
        };
        self.working.rules.put(key, rule);
        ChangeOutcome::Done
    }

    /// Replaces the text of a rule, unless it changed since it was read.
    pub(super) fn rewrite_rule(
        &mut self,
        world: &WorldId,
        id: &RuleId,
        expected: &StoredText,
        body: &RuleText,
    ) -> ChangeOutcome {
        let key = (world.clone(), id.clone());
        let stored = self.working.rules.get(&key);
        if stored.is_none_or(|rule| rule.body != expected.0) {
            return ChangeOutcome::NoChange;
        }
        self.set_rule(world, id, Some(body))
    }
}
