//! What is noted beside an entry: evidence, signatures, vectors, and the actions that rest on it.
//! All of it goes or loses its words with the text.

use super::ChangeOutcome;
use super::apply::Applier;
use super::row::{EntryName, LinkKey, LinkRow, RowKey, SignatureRow, VectorRow};
use super::working::Working;
use crate::batch::ActionText;
use crate::embedding::{Embedding, ModelId};
use crate::sabotage;
use crate::trust::Evidence;

impl Working {
    /// Deletes the signature of a text that is gone or has changed.
    pub(super) fn delete_signature(&mut self, key: RowKey) {
        self.signatures.put(key, None);
    }

    /// Deletes the vectors of a text that is gone or has changed.
    pub(super) fn delete_vectors(&mut self, key: RowKey) {
        let range = (key, ModelId(i64::MIN))..=(key, ModelId(i64::MAX));
        let new: Vec<(RowKey, ModelId)> = self.vectors.range(range).map(|(key, _)| *key).collect();
        for vector in new {
            self.vectors.remove(&vector);
        }
        self.vectors_deleted.put(key, ());
    }

    /// Blanks the names and references of an entry's actions when its text is erased; that actions
    /// rested on the entry stays recorded. A number takes the place of a reference, since no two
    /// links of an entry may be the same.
    pub(super) fn blank_links(&mut self, row: RowKey) {
        for (n, (key, link)) in self.links_of(row).into_iter().enumerate() {
            if !link.action.is_empty() {
                self.links.update(&key, |link| {
                    link.action.clear();
                    link.reference = (n + 1).to_string();
                });
            }
        }
    }
}

impl Applier<'_> {
    /// Replaces the evidence of an entry.
    pub(super) fn set_evidence(&mut self, name: &EntryName, evidence: &Evidence) -> ChangeOutcome {
        let evidence = evidence.to_text();
        let at = self.batch.at();
        let found = self.working.entry(name);
        let Some((key, _)) = found.filter(|(_, row)| row.is_live(at) && row.evidence != evidence)
        else {
            return ChangeOutcome::NoChange;
        };
        self.advance_revision();
        self.working
            .entries
            .update(&key, |row| row.evidence = evidence);
        ChangeOutcome::Done
    }

    /// Stores the signature that consolidation computed for an entry.
    pub(super) fn store_signature(
        &mut self,
        name: &EntryName,
        pass: u64,
        signature: &[u8],
    ) -> ChangeOutcome {
        let Some((key, _)) = self.working.entry(name).filter(|(_, row)| row.is_current()) else {
            return ChangeOutcome::NoChange;
        };
        let signature = SignatureRow {
            pass,
            signature: signature.to_vec(),
        };
        self.working.signatures.put(key, Some(signature));
        ChangeOutcome::Done
    }

    /// Stores the vector of an entry's text, if the text is still the one that it was made from.
    pub(super) fn store_embedding(
        &mut self,
        name: &EntryName,
        redaction_fingerprint: u64,
        model: ModelId,
        vector: &Embedding,
    ) -> ChangeOutcome {
        let stores_vectors = self.working.stores_vectors;
        let Some((key, row)) = self.working.entry(name).filter(|_| stores_vectors) else {
            return ChangeOutcome::NoChange;
        };
        let is_same_text = sabotage!(
            "the-vector-of-another-text-is-kept",
            row.redaction_fingerprint == redaction_fingerprint,
            true
        );
        if row.is_erased() || !is_same_text {
            return ChangeOutcome::NoChange;
        }
        let vector = VectorRow {
            tier: row.tier,
            typology: row.typology,
            vector: vector.clone(),
        };
        self.working.vectors.put((key, model), vector);
        ChangeOutcome::Done
    }

    /// Notes that an action rests on an entry.
    pub(super) fn link_action(&mut self, name: &EntryName, text: &ActionText) -> ChangeOutcome {
        let Some((row, _)) = self.working.entry(name).filter(|(_, row)| !row.is_erased()) else {
            return ChangeOutcome::NoChange;
        };
        if self.find_link(row, text).is_some() {
            return ChangeOutcome::NoChange;
        }
        let at = self.now();
        self.advance_revision();
        let by = self.batch.principal().map(|name| name.as_str().to_owned());
        let key = LinkKey {
            row,
            action: text.action.clone(),
            reference: text.reference.clone(),
        };
        let link = LinkRow {
            action: text.action.clone(),
            reference: text.reference.clone(),
            made: Some((at, by)),
        };
        self.working.links.put(key, link);
        ChangeOutcome::Done
    }

    /// Replaces the name and reference of an action, unless they changed since they were read.
    pub(super) fn rewrite_action(
        &mut self,
        name: &EntryName,
        expected: &ActionText,
        text: &ActionText,
    ) -> ChangeOutcome {
        let found = self.working.names.get(name).copied();
        let Some(key) = found.and_then(|row| self.find_link(row, expected)) else {
            return ChangeOutcome::NoChange;
        };
        self.advance_revision();
        self.working.links.update(&key, |link| {
            link.action.clone_from(&text.action);
            link.reference.clone_from(&text.reference);
        });
        ChangeOutcome::Done
    }

    fn find_link(&self, row: RowKey, text: &ActionText) -> Option<LinkKey> {
        let links = self.working.links_of(row).into_iter();
        links
            .filter(|(_, link)| link.action == text.action && link.reference == text.reference)
            .map(|(key, _)| key)
            .next()
    }
}
