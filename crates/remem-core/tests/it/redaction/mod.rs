//! Redaction: markers, what holds for every text, and what the documentation says of it.

mod docs;
mod markers;
mod properties;
