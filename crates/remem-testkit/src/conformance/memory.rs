//! A memory of a check, with shorthands for what the checks do and read.

use super::{NOON, admit, all, draft, id, scope};
use remem_core::{
    Batch, Draft, EntryId, EventKind, MemoryRef, RetireReason, Revision, Scope, Seq, Subject,
};
use remem_store::{ChangeOutcome, DueWork, EntryState, Filter, Lineage, Probe, ReadAt, Store};

pub(super) struct MemoryFixture<'a> {
    pub store: &'a dyn Store,
    pub s: Scope,
}

impl<'a> MemoryFixture<'a> {
    pub fn new(store: &'a dyn Store, tenant: &str) -> MemoryFixture<'a> {
        MemoryFixture {
            store,
            s: scope(tenant, "m"),
        }
    }

    pub fn batch(&self) -> Batch {
        Batch::new(self.s.tenant.clone(), NOON)
    }

    pub fn memory_ref(&self) -> MemoryRef {
        self.s.memory_ref.clone()
    }

    /// Writes entries whose text is `word` and their name.
    pub async fn put(&self, names: &[&str]) {
        for name in names {
            self.put_about(name, &[], &[]).await;
        }
    }

    /// Writes an entry about `subjects`, made from `sources` of this memory.
    pub async fn put_about(&self, name: &str, subjects: &[Subject], sources: &[&str]) {
        let draft = Draft {
            subjects: subjects.to_vec(),
            ..draft(&format!("word {name}"))
        };
        let sources = sources
            .iter()
            .map(|source| (self.memory_ref(), id(source)))
            .collect();
        let batch = self
            .batch()
            .put_derived(id(name), admit(&self.s, draft, NOON), sources);
        assert!(matches!(
            self.commit(batch).await[..],
            [ChangeOutcome::Stored { .. }]
        ));
    }

    pub async fn commit(&self, batch: Batch) -> Vec<ChangeOutcome> {
        self.store
            .commit(batch)
            .await
            .expect("the batch is applied")
            .outcomes
    }

    pub async fn retire(&self, name: &str, reason: RetireReason, by: &str) -> ChangeOutcome {
        self.commit(
            self.batch()
                .retire(self.memory_ref(), id(name), reason, id(by)),
        )
        .await
        .remove(0)
    }

    pub async fn forget(&self, name: &str) -> ChangeOutcome {
        self.commit(self.batch().forget(self.memory_ref(), id(name)))
            .await
            .remove(0)
    }

    pub async fn revive(&self, name: &str) -> ChangeOutcome {
        self.commit(self.batch().revive(self.memory_ref(), id(name)))
            .await
            .remove(0)
    }

    pub async fn delete(&self, name: &str) -> ChangeOutcome {
        self.commit(self.batch().delete(self.memory_ref(), id(name)))
            .await
            .remove(0)
    }

    pub async fn erase(&self, name: &str) -> ChangeOutcome {
        self.commit(self.batch().erase(self.memory_ref(), id(name)))
            .await
            .remove(0)
    }

    /// The names of live entries.
    pub async fn live(&self) -> Vec<String> {
        self.visible(&ReadAt::Now(NOON)).await
    }

    /// The names of the entries that a reader sees: list, get and search must agree, and each entry
    /// must have its own text.
    pub async fn visible(&self, at: &ReadAt) -> Vec<String> {
        let mut seen = Vec::new();
        for entry in all(self.store, &self.s, at).await {
            assert_eq!(entry.content, format!("word {}", entry.id));
            assert!(
                self.store
                    .get(&self.s, &entry.id, at)
                    .await
                    .expect("read")
                    .is_some()
            );
            seen.push(entry.id.as_str().to_owned());
        }
        seen.sort();
        let probe = Probe::words(vec!["word".to_owned()]);
        let hits = self
            .store
            .search(&self.s, &probe, &Filter::default(), 99, at)
            .await
            .expect("read")
            .candidates;
        let mut found: Vec<String> = hits
            .iter()
            .map(|hit| hit.entry.id.as_str().to_owned())
            .collect();
        found.sort();
        assert_eq!(found, seen, "a search finds what a list shows");
        seen
    }

    /// The names of removed entries that the purge would erase.
    pub async fn ended(&self) -> Vec<String> {
        let ended = self
            .store
            .erasable_entries(&self.s.tenant, 99)
            .await
            .expect("read");
        assert!(
            ended.is_empty()
                || self
                    .store
                    .tenants_with_work(DueWork::Purge, NOON)
                    .await
                    .expect("read")
                    .contains(&self.s.tenant),
            "somebody is told of it"
        );
        let mut names: Vec<String> = ended.iter().map(|(_, id)| id.as_str().to_owned()).collect();
        names.sort();
        names
    }

    /// Erases removed entries until none is left, and returns their names.
    pub async fn purge(&self) -> Vec<String> {
        let mut erased = Vec::new();
        loop {
            let ended = self.ended().await;
            if ended.is_empty() {
                return erased;
            }
            for name in ended {
                assert_eq!(self.erase(&name).await, ChangeOutcome::Removed, "{name}");
                erased.push(name);
            }
        }
    }

    pub async fn head(&self) -> (Revision, Seq) {
        let head = self.store.head(&self.s.tenant).await.expect("read");
        (head.revision, head.seq)
    }

    /// The kind and payload of the newest event.
    pub async fn last_event(&self) -> (EventKind, String) {
        let (_, seq) = self.head().await;
        let event = self
            .store
            .events(&self.s.tenant, Seq(seq.0 - 1), 9)
            .await
            .expect("read")
            .remove(0);
        (event.body.kind(), event.body.payload().to_string())
    }

    pub async fn lineage(&self, name: &str) -> Lineage {
        self.store
            .lineage(&self.s, &id(name))
            .await
            .expect("read")
            .expect("an entry or its skeleton")
    }

    pub async fn state(&self, name: &str) -> EntryState {
        self.lineage(name).await.state
    }

    /// Whether the text is still stored, visible or not.
    pub async fn has_text(&self, name: &str) -> bool {
        let stale = self
            .store
            .entries_to_rescan(&self.s.tenant, u64::MAX, None, 999)
            .await
            .expect("read");
        stale
            .entries
            .iter()
            .any(|entry: &remem_core::Entry| entry.id == EntryId::parse(name).expect("a test's id"))
    }

    pub async fn verify(&self) {
        self.store.verify(&self.s.tenant).await.expect("sound");
    }
}

pub(super) fn subject(number: u8) -> Subject {
    Subject::from_bytes([number; 32])
}
