//! The names of drafts. A name is made of the names of the things that it starts and of a short
//! hash, so that the same draft always has the same name. It holds no word that a caller wrote.

use crate::proposal::artifact::sha256;
use crate::proposal::automation::AutomationTarget;

/// The most characters of a name before its hash. The shortest of the name types (128) leaves room
/// for prefixes.
const SLUG_CHARS_MAX: usize = 80;
const HASH_CHARS: usize = 8;

/// Lower-case letters, digits and single dashes, beginning with a letter.
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

/// A slug of `text`, and the hash of everything that distinguishes this draft from others.
pub(super) fn name_with_hash(text: &str, distinguishing: &str) -> String {
    format!("{}-{}", slug(text), &sha256(distinguishing)[..HASH_CHARS])
}

/// The kind of a target, and its id.
pub(super) fn kind_and_id(target: &AutomationTarget) -> (&'static str, &str) {
    match target {
        AutomationTarget::Workflow(id) => ("workflow", id),
        AutomationTarget::Agent(id) => ("agent", id),
    }
}
