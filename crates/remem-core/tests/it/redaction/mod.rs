//! Redaction: markers, properties of every text, and agreement with the documentation.

mod decoys;
mod docs;
mod hostile;
pub mod hostile_texts;
mod markers;
mod properties;
