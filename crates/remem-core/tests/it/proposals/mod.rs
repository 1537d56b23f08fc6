//! Proposals: artifacts, automations, duplicates, the lifecycle, and drafts from traces.

mod artifact;
mod automation;
mod duplicate;
mod lifecycle;
mod synthesis;
mod synthesis_properties;
