//! Redaction: markers, what holds for every text, and what the documentation says of it.

mod decoys;
mod docs;
mod markers;
mod properties;
