//! The names of drafts: made of the names of what they start and of a short hash, so that the same
//! draft has the same name whenever it is made. Holds no word that a caller wrote.

use crate::proposal::artifact::sha256;
use crate::proposal::automation::Target;

/// Characters of a name before its hash: it leaves room for prefixes in the shortest of the names
/// (128).
const SLUG_CHARS_MAX: usize = 80;
const HASH_CHARS: usize = 8;

/// Small letters, digits and single dashes; begins with a letter.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() && !slug.is_empty() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() == SLUG_CHARS_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "routine".to_owned()
    } else {
        slug.to_owned()
    }
}

/// A slug and the hash of everything that tells this draft from others.
pub(super) fn named(text: &str, tells: &str) -> String {
    format!("{}-{}", slug(text), &sha256(tells)[..HASH_CHARS])
}

/// The name of what is started, and what it is.
pub(super) fn of_target(target: &Target) -> (&'static str, &str) {
    match target {
        Target::Workflow(id) => ("workflow", id),
        Target::Agent(id) => ("agent", id),
    }
}
