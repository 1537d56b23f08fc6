//! Owns redaction (SR-1): keeping registered secret values, and text with the shape of a secret,
//! out of everything that is stored, indexed, logged or sent. The one maker of [`Redacted`].
//!
//! It is pure: no IO, no clock, no randomness, no panic on any input. It may not store or log text.
//!
//! How a text is cleaned, from the outside in:
//! - `clean` runs rounds until nothing is found, and writes the markers (`marker` owns their
//!   grammar);
//! - `layers` follows encodings to a bounded depth (`escapes`, `alphabets`, `invisible`, `inflate`
//!   decode) and `packed` into packed data, both within a `budget`: what does not fit is replaced;
//! - `needles` searches one layer for the forms of every value (`forms`, `json_forms`, `bases` make
//!   and judge them, `fold` makes the skeletons that they are matched in);
//! - `scan` finds thousands of byte strings in one pass;
//! - `shapes` knows what keys of common vendors look like.
//!
//! Not found are values cut into pieces below half, spelled out, hashed, or encoded in ways that
//! `layers` does not know. The text around a match is never rewritten.

mod alphabets;
mod bases;
mod budget;
mod clean;
mod escapes;
mod fold;
mod forms;
mod inflate;
mod invisible;
mod json;
mod json_forms;
pub mod jsonl;
mod layers;
mod lookalikes;
mod marker;
mod needles;
mod origin;
mod packed;
mod random;
mod scan;
mod shapes;
mod stretch;
mod types;
mod value;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use clean::Cleaner;
use needles::Needles;

pub use shapes::{SHAPES_VERSION, ShapeKind, shape_table};
pub use types::{Cleaned, Redacted, ShapePolicy, UnknownShapePolicy};
pub use value::{FLOOR_CHARS, SecretValue};

/// Raised when the search for values changes, so that a fingerprint distinguishes texts scanned
/// before from those scanned after.
const SEARCH_VERSION: u32 = 2;

/// Cleans text of a set of registered values and of secret shapes. Cloning is cheap.
#[derive(Clone)]
pub struct Redactor {
    inner: Arc<RedactorInner>,
}

struct RedactorInner {
    needles: Needles,
    /// The marker id of each value, checked to be safe to show.
    ids: Vec<String>,
    values: Vec<SecretValue>,
    ignored: usize,
}

impl Redactor {
    /// Registers values. Those under [`FLOOR_CHARS`] characters are ignored and counted; a value
    /// given twice keeps its first id.
    pub fn new(values: impl IntoIterator<Item = SecretValue>) -> Redactor {
        let mut kept: Vec<SecretValue> = Vec::new();
        let mut ignored = 0;
        let mut seen = HashSet::new();
        for value in values {
            if !value.is_long_enough() {
                ignored += 1;
            } else if seen.insert(blake3::hash(value.plain().as_bytes())) {
                kept.push(value);
            }
        }
        let needles = Needles::new(kept.iter().map(SecretValue::plain));
        let ids = safe_ids(&needles, &kept);
        Redactor {
            inner: Arc::new(RedactorInner {
                needles,
                ids,
                values: kept,
                ignored,
            }),
        }
    }

    /// A redactor without values; it still knows secret shapes.
    pub fn empty() -> Redactor {
        Redactor::new([])
    }

    /// The number of registered values.
    pub fn len(&self) -> usize {
        self.inner.values.len()
    }

    /// Whether no value is registered.
    pub fn is_empty(&self) -> bool {
        self.inner.values.is_empty()
    }

    /// The number of values left out because they have fewer than [`FLOOR_CHARS`] characters.
    pub fn ignored(&self) -> usize {
        self.inner.ignored
    }

    /// A number that distinguishes value sets and rule versions without revealing values: equal
    /// fingerprints under one key mean that a text was scanned by the same rules.
    pub fn fingerprint(&self, key: &[u8; 32]) -> u64 {
        let mut values: Vec<&str> = self.inner.values.iter().map(SecretValue::plain).collect();
        values.sort_unstable();
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher
            .update(&SEARCH_VERSION.to_le_bytes())
            .update(&SHAPES_VERSION.to_le_bytes());
        for value in values {
            // Lengths keep ["ab", "c"] and ["a", "bc"] apart.
            hasher
                .update(&(value.len() as u64).to_le_bytes())
                .update(value.as_bytes());
        }
        let mut first = [0; 8];
        hasher.finalize_xof().fill(&mut first);
        u64::from_le_bytes(first)
    }

    /// Cleans content or any other free text.
    pub fn clean(&self, text: &str, shapes: ShapePolicy) -> Cleaned {
        self.cleaner(shapes, false).clean(text)
    }

    /// Cleans text that was made from other entries: as [`clean`](Redactor::clean), and
    /// placeholders of other notations (`[BYOK:x]`, `<REDACTED:x>`) become markers.
    pub fn clean_derived(&self, text: &str, shapes: ShapePolicy) -> Cleaned {
        self.cleaner(shapes, true).clean(text)
    }

    /// Whether `clean` would change the text or, under `Flag`, report a shape. For refs and ids,
    /// which are refused and not rewritten.
    pub fn has_findings(&self, text: &str, shapes: ShapePolicy) -> bool {
        self.cleaner(shapes, false).has_findings(text)
    }

    fn cleaner(&self, shapes: ShapePolicy, derived: bool) -> Cleaner<'_> {
        Cleaner {
            needles: &self.inner.needles,
            ids: &self.inner.ids,
            shapes,
            derived,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("len", &self.len())
            .field("ignored", &self.ignored())
            .finish()
    }
}

/// The id that each value's marker will show: its own if that is fit and holds no secret, else a
/// number.
fn safe_ids(needles: &Needles, values: &[SecretValue]) -> Vec<String> {
    let all: Vec<String> = values.iter().map(|value| value.id().to_owned()).collect();
    let cleaner = Cleaner {
        needles,
        ids: &all,
        shapes: ShapePolicy::Redact,
        derived: false,
    };
    let safe = |(at, id): (usize, &String)| {
        if marker::is_fit_id(id) && cleaner.is_clean(id) {
            return id.clone();
        }
        let [named, short] = marker::generic_ids(at + 1);
        if cleaner.is_clean(&named) {
            named
        } else {
            short
        }
    };
    all.iter().enumerate().map(safe).collect()
}
