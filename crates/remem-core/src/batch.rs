//! The batch: everything one transaction does, as a value. Decided here, applied by a store, all or
//! nothing.
//!
//! A change and its event are one thing: a store asks the change for its event, it never composes
//! one itself.

mod change;
mod links;

pub use change::{ActionText, Cause, Change, Closing, Reason, StoredText};

use crate::admission::Admitted;
use crate::embedding::{Embedding, ModelId};
use crate::entry::Entry;
use crate::event::EventBody;
use crate::ids::{Actor, EntryId, MemoryRef, PrincipalId, Revision, RunId, TenantId, Timestamp};
use crate::record::{Precondition, RECORD_KEY_BYTES_MAX, RecordBody, RecordKind, Ties};
use crate::trust::Evidence;

/// What one transaction does to one tenant's memory.
#[derive(Clone, Debug)]
pub struct Batch {
    tenant: TenantId,
    at: Timestamp,
    principal: Option<PrincipalId>,
    as_host: bool,
    run: Option<RunId>,
    idempotency: Option<Idempotency>,
    fence: Option<Fence>,
    expectations: Vec<Expectation>,
    records: Vec<RecordExpectation>,
    changes: Vec<Change>,
}

/// A condition that must hold when the batch is applied, else nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The memory.
    pub memory_ref: MemoryRef,
    /// The entry that must still be part of it …
    pub id: EntryId,
    /// … as the commit of this revision wrote it.
    pub written_at: Revision,
}

/// A condition on a record that the batch does not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordExpectation {
    /// What it is about.
    pub kind: RecordKind,
    /// Its name.
    pub key: String,
    /// What it must be like.
    pub precondition: Precondition,
}

/// The caller's (or a derived) key that makes a retry safe. Keyed digests only: neither the key nor
/// the body is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The operation the key belongs to; the same key on another operation is another key.
    pub operation: &'static str,
    /// Keyed digest of the caller's key.
    pub key: [u8; 32],
    /// Keyed digest of the request.
    pub body: [u8; 32],
}

/// The right to act as a pass: valid until somebody else takes over, which a store notices by the
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Which pass.
    pub pass: &'static str,
    /// Grows with each change of hands.
    pub number: u64,
}

impl Batch {
    /// An empty batch of `tenant`, judged at `at`.
    #[must_use]
    pub fn new(tenant: TenantId, at: Timestamp) -> Batch {
        Batch {
            tenant,
            at,
            principal: None,
            as_host: false,
            run: None,
            idempotency: None,
            fence: None,
            expectations: Vec::new(),
            records: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Who is acting.
    #[must_use]
    pub fn by(mut self, principal: PrincipalId) -> Batch {
        self.principal = Some(principal);
        self
    }

    /// Reaches everybody's memories, whoever asked for it.
    #[must_use]
    pub fn as_host(mut self) -> Batch {
        self.as_host = true;
        self
    }

    /// The run that causes it.
    #[must_use]
    pub fn in_run(mut self, run: RunId) -> Batch {
        self.run = Some(run);
        self
    }

    /// Makes a repetition of the batch answer like the first time.
    #[must_use]
    pub fn idempotent(mut self, idempotency: Option<Idempotency>) -> Batch {
        self.idempotency = idempotency;
        self
    }

    /// Applies only while nobody else has taken over the pass: what a node decided before it was
    /// paused for too long must not be written after another one went on.
    #[must_use]
    pub fn fenced(mut self, fence: Option<Fence>) -> Batch {
        self.fence = fence;
        self
    }

    /// Applies only if the entry is still there as that revision wrote it.
    #[must_use]
    pub fn expect(mut self, memory_ref: MemoryRef, id: EntryId, written_at: Revision) -> Batch {
        self.expectations.push(Expectation {
            memory_ref,
            id,
            written_at,
        });
        self
    }

    /// Applies only if a record is like that, without writing it.
    #[must_use]
    pub fn expect_record(
        mut self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
    ) -> Batch {
        self.records.push(RecordExpectation {
            kind,
            key,
            precondition,
        });
        self
    }

    /// Stores an admitted entry as `id`.
    ///
    /// # Panics
    /// If the entry was admitted to another tenant: that is a bug of the caller, and going on would
    /// cross the wall.
    #[must_use]
    pub fn put(self, id: EntryId, admitted: Admitted) -> Batch {
        self.put_by(id, admitted, Cause::default())
    }

    /// As `put`, by a part of a run.
    ///
    /// # Panics
    /// As `put`.
    #[must_use]
    pub fn put_by(self, id: EntryId, admitted: Admitted, cause: Cause) -> Batch {
        self.put_whole(id, admitted, cause, Vec::new())
    }

    /// As `put`, made from other entries.
    ///
    /// # Panics
    /// As `put`.
    #[must_use]
    pub fn put_from(
        self,
        id: EntryId,
        admitted: Admitted,
        sources: Vec<(MemoryRef, EntryId)>,
    ) -> Batch {
        self.put_whole(id, admitted, Cause::default(), sources)
    }

    fn put_whole(
        mut self,
        id: EntryId,
        admitted: Admitted,
        cause: Cause,
        sources: Vec<(MemoryRef, EntryId)>,
    ) -> Batch {
        assert_eq!(
            admitted.scope().tenant,
            self.tenant,
            "an entry is only stored for the tenant it was admitted to"
        );
        self.changes.push(Change::Put {
            id,
            admitted: Box::new(admitted),
            cause,
            sources,
        });
        self
    }

    /// Lets one entry stand for another.
    #[must_use]
    pub fn retire(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        reason: Reason,
        by: EntryId,
    ) -> Batch {
        self.changes.push(Change::Retire {
            memory_ref,
            id,
            reason,
            by,
        });
        self
    }

    /// Erases an entry's text whoever could still read it.
    #[must_use]
    pub fn forget(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Forget { memory_ref, id });
        self
    }

    /// Brings a merged entry back.
    #[must_use]
    pub fn revive(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Revive { memory_ref, id });
        self
    }

    /// Makes room for another answer.
    #[must_use]
    pub fn close(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        closing: Closing,
        by: Option<EntryId>,
    ) -> Batch {
        self.changes.push(Change::Close {
            memory_ref,
            id,
            closing,
            by,
        });
        self
    }

    /// Takes an entry away with its session.
    #[must_use]
    pub fn end(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::End { memory_ref, id });
        self
    }

    /// Erases what was true long ago.
    #[must_use]
    pub fn strip(mut self, memory_ref: MemoryRef, id: EntryId, before: Timestamp) -> Batch {
        self.changes.push(Change::Strip {
            memory_ref,
            id,
            before,
        });
        self
    }

    /// Notes who else says what an entry says.
    #[must_use]
    pub fn strengthen(mut self, memory_ref: MemoryRef, id: EntryId, evidence: Evidence) -> Batch {
        self.changes.push(Change::Strengthen {
            memory_ref,
            id,
            evidence,
        });
        self
    }

    /// Keeps the vector of an entry as it was read.
    #[must_use]
    pub fn embed(mut self, entry: &Entry, model: ModelId, vector: Embedding) -> Batch {
        let memory_ref = entry.memory_ref.clone();
        let id = entry.id.clone();
        let scan = entry.scan;
        self.changes.push(Change::Embed {
            memory_ref,
            id,
            scan,
            model,
            vector,
        });
        self
    }

    /// Keeps a signature.
    #[must_use]
    pub fn sign(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        pass: u64,
        signature: Vec<u8>,
    ) -> Batch {
        self.changes.push(Change::Sign {
            memory_ref,
            id,
            pass,
            signature,
        });
        self
    }

    /// Replaces an entry's text by the same text, admitted anew.
    ///
    /// # Panics
    /// As `put`.
    #[must_use]
    pub fn rewrite(mut self, id: EntryId, admitted: Admitted) -> Batch {
        assert_eq!(
            admitted.scope().tenant,
            self.tenant,
            "an entry is only stored for the tenant it was admitted to"
        );
        self.changes.push(Change::Rewrite {
            id,
            admitted: Box::new(admitted),
        });
        self
    }

    /// Erases what was taken away while a run could still read it.
    #[must_use]
    pub fn erase(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Erase { memory_ref, id });
        self
    }

    /// Holds a snapshot for the batch's run, as this commit leaves memory.
    ///
    /// # Panics
    /// If the batch has no run: a snapshot that nobody can let go of would keep deleted text for
    /// ever.
    #[must_use]
    pub fn hold(mut self) -> Batch {
        assert!(self.run.is_some(), "a snapshot belongs to a run");
        self.changes.push(Change::Hold);
        self
    }

    /// Lets go of the snapshot of the batch's run.
    #[must_use]
    pub fn release(mut self) -> Batch {
        self.changes.push(Change::Release);
        self
    }

    /// Deletes an entry.
    #[must_use]
    pub fn delete(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Delete { memory_ref, id });
        self
    }

    /// Removes an entry whose time has run out.
    #[must_use]
    pub fn expire(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Expire { memory_ref, id });
        self
    }

    /// Writes a record.
    ///
    /// # Panics
    /// If the name is longer than a store can index: names are bounded where they are made.
    #[must_use]
    pub fn set(
        self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
        body: RecordBody,
    ) -> Batch {
        self.set_tied(kind, key, precondition, body, Ties::default())
    }

    /// Writes a record that is found by more than its name. An entry that it is tied to and that
    /// the batch itself stores is put first.
    ///
    /// # Panics
    /// As `set`; and if something inert is tied to an entry or waits for something: only time ends
    /// a review.
    #[must_use]
    pub fn set_tied(
        mut self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
        body: RecordBody,
        ties: Ties,
    ) -> Batch {
        assert!(
            key.len() <= RECORD_KEY_BYTES_MAX,
            "a record's name is short"
        );
        assert!(
            kind.is_timed() || ties.due.is_none(),
            "stores look for the next of the kinds that can be due"
        );
        assert!(
            !kind.is_inert() || (ties.topic.is_none() && ties.source.is_none()),
            "what is inert is only ever due"
        );
        self.changes.push(Change::Record {
            kind,
            key,
            precondition,
            body: Some(body),
            ties: Box::new(ties),
        });
        self
    }

    /// Takes a record away.
    #[must_use]
    pub fn unset(mut self, kind: RecordKind, key: String, precondition: Precondition) -> Batch {
        self.changes.push(Change::Record {
            kind,
            key,
            precondition,
            body: None,
            ties: Box::default(),
        });
        self
    }

    /// Appends an event.
    #[must_use]
    pub fn emit(mut self, body: EventBody) -> Batch {
        self.changes.push(Change::Emit {
            body: Box::new(body),
            recorded_at: None,
            apart: false,
        });
        self
    }

    /// Appends an event that is no part of the log of the batch's run.
    #[must_use]
    pub fn emit_apart(mut self, body: EventBody) -> Batch {
        self.changes.push(Change::Emit {
            body: Box::new(body),
            recorded_at: None,
            apart: true,
        });
        self
    }

    /// Appends an event that an earlier run recorded at `at`.
    #[must_use]
    pub fn repeat(mut self, body: EventBody, at: Timestamp) -> Batch {
        self.changes.push(Change::Emit {
            body: Box::new(body),
            recorded_at: Some(at),
            apart: false,
        });
        self
    }

    /// Whose memory it changes.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }
    /// The instant it is judged at.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }
    /// Who acts.
    #[must_use]
    pub fn principal(&self) -> Option<&PrincipalId> {
        self.principal.as_ref()
    }
    /// Whose memories it reaches: the caller's own and the tenant's; everybody's where nobody asked
    /// for it, or it says so.
    #[must_use]
    pub fn actor(&self) -> Actor {
        match &self.principal {
            Some(user) if !self.as_host => Actor::User(user.clone()),
            _ => Actor::Host,
        }
    }

    /// Whether it touches a memory that is one user's.
    #[must_use]
    pub fn touches_owned(&self) -> bool {
        let touched = self.changes.iter().flat_map(Change::memory_refs);
        touched
            .chain(
                self.expectations
                    .iter()
                    .map(|expected| &expected.memory_ref),
            )
            .any(|memory_ref| memory_ref.owner().is_some())
    }
    /// The run that causes it.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }
    /// The key that makes it repeatable.
    #[must_use]
    pub fn idempotency(&self) -> Option<&Idempotency> {
        self.idempotency.as_ref()
    }
    /// The lease it depends on.
    #[must_use]
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }
    /// What must hold.
    #[must_use]
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }
    /// What must hold of records.
    #[must_use]
    pub fn record_expectations(&self) -> &[RecordExpectation] {
        &self.records
    }
    /// Whether it stores this entry.
    #[must_use]
    pub fn puts(&self, memory_ref: &MemoryRef, id: &EntryId) -> bool {
        let puts = |change: &Change| matches!(change, Change::Put { id: put, admitted, .. } if put == id && &admitted.scope().memory_ref == memory_ref);
        self.changes.iter().any(puts)
    }
    /// What it does, in order.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
}
