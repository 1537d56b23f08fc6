//! Proposals: drafts of what the host could do by itself, which do nothing until somebody applies them.

mod desk;

pub use desk::Desk;
