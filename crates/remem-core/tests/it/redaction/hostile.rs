//! Goal: no text makes the redactor examine more than a stated multiple of its length. Method: the
//! redactor's own count of bytes over texts made to be expensive; a count, so that a busy machine
//! changes nothing.

use super::hostile_texts::hostile_texts;
use remem_core::redact::{Redactor, SecretValue, ShapePolicy};

/// The most bytes examined for each byte of a text, in all rounds.
const FACTOR: usize = 64;
/// The fixed cost that any text may have in addition: the data that it unpacks to, in each of two
/// rounds.
const EXTRA: usize = 2 * (16 << 20) + (256 << 10);

#[test]
fn hostile_texts_are_scanned_in_linear_work() {
    let value = |n: usize| SecretValue::new(format!("k{n}"), format!("Kq7zP2mW9x4L{n:04}tB6vNc3R"));
    let redactor = Redactor::new((0..20).map(value));
    for (name, text) in hostile_texts(128 << 10) {
        let examined = redactor.clean(&text, ShapePolicy::Redact).examined;
        println!("{name}: {:.1} a byte", examined as f64 / text.len() as f64);
        let extra = if name.contains("packed") { EXTRA } else { 0 };
        assert!(
            examined <= text.len() * FACTOR + extra,
            "{name}: {examined} bytes looked at for {}",
            text.len()
        );
    }
}

#[test]
fn ordinary_text_is_scanned_under_16_times() {
    let redactor = Redactor::new([SecretValue::new("k", "Kq7zP2mW9x4LtB6vNc3R")]);
    let text = "The release of 2026-11-15 is at https://example.org/a?b=1&c=2, see <b>notes</b>. ";
    let text = text.repeat(1000);
    let examined = redactor.clean(&text, ShapePolicy::Redact).examined;
    assert!(examined < 16 * text.len(), "{examined} for {}", text.len());
}
