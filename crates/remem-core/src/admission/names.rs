//! Names that are stored in clear beside the text of an entry. A new name that holds a secret is
//! refused, never rewritten; the names of stored entries are checked again when they are read.

use super::{Admission, SLOT_CHARS_MAX, check_limit};
use crate::entry::Facets;
use crate::ids::{InteractionId, WorldId};
use crate::redact::Redactor;
use crate::rejection::Rejection;
use crate::sabotage;

/// The largest name that is searched for secrets, in bytes. Each kind of name has a tighter limit
/// of its own, but that limit may be checked after the search: this one keeps the search cheap.
const NAME_BYTES_MAX: usize = 4_096;

/// The name shown for a chat thread whose real name holds a secret.
const REDACTED_INTERACTION: &str = "redacted";

impl Admission<'_> {
    /// Refuses names that hold a secret or are too long.
    pub(super) fn check_names(&self, facets: &Facets) -> Result<(), Rejection> {
        let world = Some(facets.world.as_str()).filter(|_| !facets.world.is_none());
        let names = [
            (
                "interaction",
                facets.interaction.as_ref().map(InteractionId::as_str),
            ),
            ("slot", facets.slot.as_deref()),
            (
                "world",
                sabotage!("a-world-may-be-named-like-a-secret", world, None),
            ),
        ];
        for (field, name) in names {
            let Some(name) = name else { continue };
            check_name(self.redactor, field, name)?;
            check_limit(field, "characters", name.chars().count(), SLOT_CHARS_MAX)?;
        }
        Ok(())
    }

    /// Redacts the names of a stored entry by the current rules. An entry whose world has a name
    /// that holds a secret is moved to the world without rules.
    pub(super) fn clean_names(&self, facets: &mut Facets) {
        let holds_secret = |name: &str| self.redactor.has_findings(name, self.policy.shapes);
        if !facets.world.is_none() && holds_secret(facets.world.as_str()) {
            sabotage!(
                "late-secrets-stay-in-names-of-worlds",
                facets.world = WorldId::none()
            );
        }
        if let Some(slot) = facets.slot.as_mut().filter(|slot| holds_secret(slot)) {
            *slot = self
                .redactor
                .clean(slot, self.policy.shapes)
                .text
                .into_string();
        }
        if let Some(thread) = &facets.interaction
            && holds_secret(thread.as_str())
        {
            facets.interaction = InteractionId::parse(REDACTED_INTERACTION);
        }
    }
}

/// Refuses a name that is too long or holds a secret. A name is stored in clear and shows in
/// events, so it is refused rather than rewritten.
pub fn check_name(redactor: &Redactor, field: &'static str, name: &str) -> Result<(), Rejection> {
    sabotage!(
        "names-of-any-length-are-looked-at",
        check_limit(field, "bytes", name.len(), NAME_BYTES_MAX)?
    );
    if sabotage!(
        "names-may-hold-secrets",
        redactor.has_findings(name, crate::ShapePolicy::Redact),
        false
    ) {
        Err(Rejection::SecretInName { field })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oversized_name_is_rejected_as_too_large() {
        let check = |bytes| check_name(&Redactor::empty(), "key", &"x".repeat(bytes));
        assert_eq!(check(NAME_BYTES_MAX), Ok(()));
        let refused = check(NAME_BYTES_MAX + 1);
        assert!(matches!(
            refused,
            Err(Rejection::TooLarge { field: "key", .. })
        ));
    }
}
