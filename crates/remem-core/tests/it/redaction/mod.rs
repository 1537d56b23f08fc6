//! Redaction: markers, what holds for every text, and what the documentation says of it.

mod decoys;
mod docs;
mod hostile;
pub mod hostile_texts;
mod markers;
mod properties;
