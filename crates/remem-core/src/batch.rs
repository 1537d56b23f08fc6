//! The batch: everything that one transaction does, as a value. Decided here, applied by a store,
//! all or nothing.
//!
//! A change and its event are one value: a store asks the change for its event and never composes
//! one itself.

mod change;
mod links;

pub use change::{ActionText, Cause, Change, ClosingReason, RetireReason, StoredText};

use crate::admission::{Admission, Admitted};
use crate::embedding::{Embedding, ModelId};
use crate::entry::Entry;
use crate::event::EventBody;
use crate::ids::{Actor, EntryId, MemoryRef, PrincipalId, Revision, RunId, TenantId, Timestamp};
use crate::record::{
    NeedsNoRedaction, Precondition, RECORD_KEY_BYTES_MAX, RecordBody, RecordKind, RecordLinks,
    StoredRecord,
};
use crate::trust::Evidence;

/// The changes that one transaction makes to the memory of one tenant.
#[derive(Clone, Debug)]
pub struct Batch {
    tenant: TenantId,
    at: Timestamp,
    principal: Option<PrincipalId>,
    as_host: bool,
    run: Option<RunId>,
    idempotency: Option<Idempotency>,
    fence: Option<Fence>,
    expectations: Vec<EntryExpectation>,
    record_expectations: Vec<RecordExpectation>,
    changes: Vec<Change>,
}

/// A condition on an entry. If it does not hold when the batch is applied, nothing of the batch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryExpectation {
    pub memory_ref: MemoryRef,
    /// The entry that must still be part of the memory …
    pub id: EntryId,
    /// … as the commit of this revision wrote it.
    pub written_at: Revision,
}

/// A condition on a record that the batch does not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordExpectation {
    pub kind: RecordKind,
    pub key: String,
    /// The state that the record must be in.
    pub precondition: Precondition,
}

/// A key, from the caller or derived, that makes a retry safe. Only keyed digests are stored,
/// neither the key nor the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// The operation that the key belongs to; the same key on another operation is another key.
    pub operation: &'static str,
    /// Keyed digest of the caller's key.
    pub key: [u8; 32],
    /// Keyed digest of the request.
    pub body: [u8; 32],
}

/// The right of a node to run a pass, with the number of its lease. When another node takes over,
/// the number grows, and a store refuses batches with the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The name of the pass.
    pub pass: &'static str,
    /// The number of the lease; it grows with each change of holder.
    pub number: u64,
}

impl Batch {
    /// An empty batch for `tenant` that is judged at the instant `at`.
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
            record_expectations: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Sets the principal that acts.
    #[must_use]
    pub fn with_principal(mut self, principal: PrincipalId) -> Batch {
        self.principal = Some(principal);
        self
    }

    /// Lets the batch reach the memories of all users, whichever principal acts.
    #[must_use]
    pub fn as_host(mut self) -> Batch {
        self.as_host = true;
        self
    }

    /// Sets the run that causes the batch.
    #[must_use]
    pub fn in_run(mut self, run: RunId) -> Batch {
        self.run = Some(run);
        self
    }

    /// Makes a repeated batch return the answer of the first one.
    #[must_use]
    pub fn idempotent(mut self, idempotency: Option<Idempotency>) -> Batch {
        self.idempotency = idempotency;
        self
    }

    /// Makes the batch fail once another node has taken over the pass. A node that was paused for
    /// too long must not write its decisions after another one has continued.
    #[must_use]
    pub fn fenced(mut self, fence: Option<Fence>) -> Batch {
        self.fence = fence;
        self
    }

    /// Makes the batch depend on an entry that is still there as that revision wrote it.
    #[must_use]
    pub fn expect_entry(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        written_at: Revision,
    ) -> Batch {
        self.expectations.push(EntryExpectation {
            memory_ref,
            id,
            written_at,
        });
        self
    }

    /// Makes the batch depend on the state of a record that it does not write.
    #[must_use]
    pub fn expect_record(
        mut self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
    ) -> Batch {
        self.record_expectations.push(RecordExpectation {
            kind,
            key,
            precondition,
        });
        self
    }

    /// Stores an admitted entry as `id`.
    ///
    /// # Panics
    /// If the entry was admitted to another tenant: that is a bug of the caller, and to go on would
    /// carry data from one tenant to another.
    #[must_use]
    pub fn put(self, id: EntryId, admitted: Admitted) -> Batch {
        self.put_caused_by(id, admitted, Cause::default())
    }

    /// As `put`, and notes the node and agent of the run that caused it.
    ///
    /// # Panics
    /// As `put`.
    #[must_use]
    pub fn put_caused_by(self, id: EntryId, admitted: Admitted, cause: Cause) -> Batch {
        self.push_put(id, admitted, cause, Vec::new())
    }

    /// As `put`, for a text that was made from other entries.
    ///
    /// # Panics
    /// As `put`.
    #[must_use]
    pub fn put_derived(
        self,
        id: EntryId,
        admitted: Admitted,
        sources: Vec<(MemoryRef, EntryId)>,
    ) -> Batch {
        self.push_put(id, admitted, Cause::default(), sources)
    }

    fn push_put(
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

    /// Retires an entry in favour of another one.
    #[must_use]
    pub fn retire(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        reason: RetireReason,
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

    /// Erases an entry's text, even if a run could still read it.
    #[must_use]
    pub fn forget(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Forget { memory_ref, id });
        self
    }

    /// Restores an entry that was merged into another one.
    #[must_use]
    pub fn revive(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Revive { memory_ref, id });
        self
    }

    /// Closes the entry that answers a slot, so that another one can take its place.
    #[must_use]
    pub fn close(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        closing: ClosingReason,
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

    /// Removes an entry because its session is over.
    #[must_use]
    pub fn end_with_session(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::EndWithSession { memory_ref, id });
        self
    }

    /// Erases the text of a statement that ceased to be true before an instant.
    #[must_use]
    pub fn erase_history(mut self, memory_ref: MemoryRef, id: EntryId, before: Timestamp) -> Batch {
        self.changes.push(Change::EraseHistory {
            memory_ref,
            id,
            before,
        });
        self
    }

    /// Replaces the evidence that an entry rests on.
    #[must_use]
    pub fn set_evidence(mut self, memory_ref: MemoryRef, id: EntryId, evidence: Evidence) -> Batch {
        self.changes.push(Change::SetEvidence {
            memory_ref,
            id,
            evidence,
        });
        self
    }

    /// Stores the vector of an entry, on condition that its text is still the one that was read.
    #[must_use]
    pub fn store_embedding(mut self, entry: &Entry, model: ModelId, vector: Embedding) -> Batch {
        let memory_ref = entry.memory_ref.clone();
        let id = entry.id.clone();
        let scan = entry.redaction_fingerprint;
        self.changes.push(Change::StoreEmbedding {
            memory_ref,
            id,
            scan,
            model,
            vector,
        });
        self
    }

    /// Stores a signature that consolidation computed from a text.
    #[must_use]
    pub fn store_signature(
        mut self,
        memory_ref: MemoryRef,
        id: EntryId,
        pass: u64,
        signature: Vec<u8>,
    ) -> Batch {
        self.changes.push(Change::StoreSignature {
            memory_ref,
            id,
            pass,
            signature,
        });
        self
    }

    /// Replaces an entry's text by the same text, redacted again.
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

    /// Erases the text of an entry that was removed while a run could still read it.
    #[must_use]
    pub fn erase(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Erase { memory_ref, id });
        self
    }

    /// Holds a snapshot of memory, as this commit leaves it, for the batch's run.
    ///
    /// # Panics
    /// If the batch has no run: a snapshot that can never be released would keep deleted text for
    /// ever.
    #[must_use]
    pub fn hold_snapshot(mut self) -> Batch {
        assert!(self.run.is_some(), "a snapshot belongs to a run");
        self.changes.push(Change::HoldSnapshot);
        self
    }

    /// Releases the snapshot of the batch's run.
    #[must_use]
    pub fn release_snapshot(mut self) -> Batch {
        self.changes.push(Change::ReleaseSnapshot);
        self
    }

    /// Deletes an entry on request of a caller.
    #[must_use]
    pub fn delete(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Delete { memory_ref, id });
        self
    }

    /// Removes an entry that has expired.
    #[must_use]
    pub fn expire(mut self, memory_ref: MemoryRef, id: EntryId) -> Batch {
        self.changes.push(Change::Expire { memory_ref, id });
        self
    }

    /// Writes a record that is found by its name only.
    ///
    /// # Panics
    /// If the name is longer than a store can index: the code that makes a name bounds its length.
    #[must_use]
    pub fn set_record(
        self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
        body: RecordBody,
    ) -> Batch {
        self.set_record_with_ties(kind, key, precondition, body, RecordLinks::default())
    }

    /// Writes a typed record as it is, under its own name and with its own ties.
    ///
    /// # Panics
    /// As `set_record_with_ties`.
    #[must_use]
    pub fn set_stored<T: StoredRecord + NeedsNoRedaction>(
        self,
        record: &T,
        precondition: Precondition,
    ) -> Batch {
        let body = RecordBody::unchanged(record);
        self.set_record_with_ties(T::KIND, record.key(), precondition, body, record.ties())
    }

    /// Writes a typed record with every text of it redacted, under its own name and with its own
    /// ties.
    ///
    /// # Panics
    /// As `set_record_with_ties`.
    #[must_use]
    pub fn set_redacted<T: StoredRecord>(
        self,
        record: &T,
        precondition: Precondition,
        admission: &Admission<'_>,
    ) -> Batch {
        let body = admission.redact_stored(record);
        self.set_record_with_ties(T::KIND, record.key(), precondition, body, record.ties())
    }

    /// Writes a record that can also be found by what it is tied to. If its source is an entry of
    /// the same batch, that entry must be put before the record.
    ///
    /// # Panics
    /// As `set_record`; and if a due time is given for a kind that cannot be due, or a topic or
    /// source for an inert kind: an inert record is only ever found by its due time.
    #[must_use]
    pub fn set_record_with_ties(
        mut self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
        body: RecordBody,
        ties: RecordLinks,
    ) -> Batch {
        assert!(
            key.len() <= RECORD_KEY_BYTES_MAX,
            "a record's name is short"
        );
        assert!(
            kind.can_be_due() || ties.due.is_none(),
            "stores look for the next of the kinds that can be due"
        );
        assert!(
            !kind.is_under_review() || (ties.topic.is_none() && ties.source.is_none()),
            "what is inert is only ever due"
        );
        self.changes.push(Change::SetRecord {
            kind,
            key,
            precondition,
            body: Some(body),
            ties: Box::new(ties),
        });
        self
    }

    /// Deletes a record if its precondition holds.
    #[must_use]
    pub fn delete_record(
        mut self,
        kind: RecordKind,
        key: String,
        precondition: Precondition,
    ) -> Batch {
        self.changes.push(Change::SetRecord {
            kind,
            key,
            precondition,
            body: None,
            ties: Box::default(),
        });
        self
    }

    /// Appends an event that belongs to no change.
    #[must_use]
    pub fn emit(mut self, body: EventBody) -> Batch {
        self.changes.push(Change::Emit {
            body: Box::new(body),
            recorded_at: None,
            outside_run: false,
        });
        self
    }

    /// Appends an event that is left out of the log of the batch's run.
    #[must_use]
    pub fn emit_outside_run(mut self, body: EventBody) -> Batch {
        self.changes.push(Change::Emit {
            body: Box::new(body),
            recorded_at: None,
            outside_run: true,
        });
        self
    }

    /// Appends an event that repeats one which an earlier run recorded at `at`.
    #[must_use]
    pub fn emit_replayed(mut self, body: EventBody, at: Timestamp) -> Batch {
        self.changes.push(Change::Emit {
            body: Box::new(body),
            recorded_at: Some(at),
            outside_run: false,
        });
        self
    }

    /// The tenant whose memory it changes.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }
    /// The instant at which it is judged.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }
    /// The principal that acts, if there is one.
    #[must_use]
    pub fn principal(&self) -> Option<&PrincipalId> {
        self.principal.as_ref()
    }
    /// The actor that stores check access with: the principal as a user; the host if there is no
    /// principal or the batch acts as the host.
    #[must_use]
    pub fn actor(&self) -> Actor {
        match &self.principal {
            Some(user) if !self.as_host => Actor::User(user.clone()),
            _ => Actor::Host,
        }
    }

    /// Returns true if it touches a memory that belongs to one user.
    #[must_use]
    pub fn touches_user_memory(&self) -> bool {
        let touched = self.changes.iter().flat_map(Change::memory_refs);
        touched
            .chain(
                self.expectations
                    .iter()
                    .map(|expected| &expected.memory_ref),
            )
            .any(|memory_ref| memory_ref.owner().is_some())
    }
    /// The run that causes it, if any.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.run.as_ref()
    }
    /// The key that makes it repeatable.
    #[must_use]
    pub fn idempotency(&self) -> Option<&Idempotency> {
        self.idempotency.as_ref()
    }
    /// The lease that it depends on.
    #[must_use]
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }
    /// The conditions on entries that must hold.
    #[must_use]
    pub fn expectations(&self) -> &[EntryExpectation] {
        &self.expectations
    }
    /// The conditions on records that must hold.
    #[must_use]
    pub fn record_expectations(&self) -> &[RecordExpectation] {
        &self.record_expectations
    }
    /// Returns true if the batch stores this entry.
    #[must_use]
    pub fn stores_entry(&self, memory_ref: &MemoryRef, id: &EntryId) -> bool {
        let is_that_entry = |change: &Change| matches!(change, Change::Put { id: put, admitted, .. } if put == id && &admitted.scope().memory_ref == memory_ref);
        self.changes.iter().any(is_that_entry)
    }
    /// The changes, in the order in which they are applied.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
}
