//! The rules of memory: what an entry is, what may happen to it, and which changes follow.
//!
//! This crate decides; it never acts. It may not do IO, be async, read a clock, draw randomness, or
//! know SQL, HTTP or a wire format. Everything here is a function of its arguments, so each rule
//! can be tested without a database.
//!
//! A value's type says how far it has come: `Draft -> Admitted -> Batch -> Entry + Event`.

pub mod admission;
pub mod agent;
pub mod batch;
pub mod capability;
pub mod commitment;
pub mod compound;
pub mod conflict;
pub mod consolidate;
pub mod distill;
pub mod embedding;
pub mod entry;
pub mod event;
mod habit;
pub mod ids;
pub mod infer;
pub mod ledger;
pub mod permission;
pub mod pii;
pub mod policy;
pub mod profile;
pub mod promote;
pub mod proposal;
pub mod query;
pub mod recall;
pub mod record;
pub mod redact;
pub mod rejection;
pub mod rewrite;
pub mod run;
pub mod sabotage;
pub mod schedule;
pub mod slots;
pub mod strict_json;
pub mod subject;
#[cfg(test)]
mod test_cases;
pub mod trgm;
pub mod trust;
pub mod typology;
pub mod webhook;
pub mod workflow;

pub use admission::{Admission, Admitted, RuleText};
pub use agent::Agent;
pub use batch::{
    ActionText, Batch, Cause, Change, ClosingReason, EntryExpectation, Fence, Idempotency,
    RetireReason, StoredText,
};
pub use commitment::Commitment;
pub use compound::{Episode, Pattern, Speaker};
pub use embedding::{Embedding, ModelId};
pub use entry::{Draft, Entry, Facets, Origin, Tier, Typology};
pub use event::{Event, EventBody, EventKind, RunPosition};
pub use ids::{
    Actor, EntryId, InteractionId, MemoryRef, PrincipalId, Revision, RuleId, RunId, Scope, Seq,
    SessionId, TenantId, Timestamp, WorldId,
};
pub use permission::Permission;
pub use pii::{Pii, PiiKind, TraceKind, find_pii, mask, trace_kind};
pub use policy::Policy;
pub use profile::{Profile, Profiles};
pub use query::Query;
pub use record::{
    CleanText, HostFacts, HostText, NeedsNoRedaction, Precondition, Record, RecordBody, RecordKind,
    RecordLinks, Sealed, StoredRecord,
};
pub use redact::{Redacted, Redactor, ShapePolicy};
pub use rejection::Rejection;
pub use run::{RunState, RunStatus};
pub use schedule::Timing;
pub use subject::Subject;
pub use trgm::Trigrams;
pub use trust::{Evidence, Trust};
pub use workflow::{AgentRef, Workflow};
