//! Admission: `admit` turns a `Draft` into an `Admitted`, and nothing else can. Every text that is
//! stored has passed here.
//!
//! The order is fixed: validate names, redact every text, then check the result against the limits.
//! Limits come last because they bound what is stored, and a redaction marker may be longer than
//! the text it replaces.

mod names;

use crate::entry::{Draft, Entry, Facets, Origin, Tier, Typology};
use crate::ids::{Scope, TenantId, Timestamp};
use crate::policy::Policy;
use crate::record::{RecordBody, StoredRecord};
use crate::redact::{Redacted, Redactor, ShapeKind};
use crate::rejection::Rejection;
use crate::sabotage;
use crate::subject::Subject;
use crate::trust::Trust;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub use names::check_name;

/// The longest name of a slot or of a chat thread, in characters.
pub const SLOT_CHARS_MAX: usize = 200;

/// The most subjects that one entry may have.
pub const SUBJECTS_MAX: usize = 32;

/// The inputs of an admission: the tenant's policy, the secrets known now, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    pub policy: &'a Policy,
    /// Finds registered secret values and the shapes of secrets.
    pub redactor: &'a Redactor,
    /// `redactor.fingerprint(..)`. It is stored with the entry, so that readers know whether the
    /// entry must be redacted again.
    pub redaction_fingerprint: u64,
    pub now: Timestamp,
}

/// A draft that was admitted. The fields are private and `Admission` is the only constructor, so
/// the compiler enforces that nothing is stored unredacted.
///
/// A batch takes what was admitted …
/// ```
/// use remem_core::{Admitted, Batch, Draft, EntryId};
/// fn put(batch: Batch, id: EntryId, admitted: Admitted) -> Batch { batch.put(id, admitted) }
/// ```
/// … and nothing less:
/// ```compile_fail,E0308
/// use remem_core::{Admitted, Batch, Draft, EntryId};
/// fn put(batch: Batch, id: EntryId, draft: Draft) -> Batch { batch.put(id, draft) }
/// ```
/// An admitted entry can be copied, but neither built nor changed from outside:
/// ```
/// use remem_core::Admitted;
/// fn copy(one: &Admitted) -> Admitted { one.clone() }
/// ```
/// ```compile_fail,E0451
/// use remem_core::{Admitted, Timestamp};
/// fn forge(one: Admitted) -> Admitted { Admitted { expires_at: Some(Timestamp(0)), ..one } }
/// ```
/// ```compile_fail,E0616
/// use remem_core::{Admitted, Redacted};
/// fn change(one: &mut Admitted, text: Redacted) { one.content = text; }
/// ```
/// Nor does a text become redacted by saying so:
/// ```
/// use remem_core::{Redacted, Redactor, ShapePolicy};
/// let text: Redacted = Redactor::empty().clean("a secret", ShapePolicy::Redact).text;
/// ```
/// ```compile_fail,E0423
/// use remem_core::{Redacted, Redactor, ShapePolicy};
/// let text: Redacted = Redacted("a secret".to_owned());
/// ```
/// ```compile_fail,E0277
/// use remem_core::{Redacted, Redactor, ShapePolicy};
/// let text: Redacted = "a secret".to_owned().into();
/// ```
#[derive(Clone, PartialEq)]
pub struct Admitted {
    scope: Scope,
    content: Redacted,
    tags: Vec<Redacted>,
    metadata: Option<String>,
    expires_at: Option<Timestamp>,
    tier: Tier,
    typology: Typology,
    subjects: Vec<Subject>,
    facets: Facets,
    origin: Option<Origin>,
    flags: Vec<ShapeKind>,
    redaction_fingerprint: u64,
}

/// The tag of entries from untrusted sources. It is part of the entry wherever it is sent, because
/// OpenWOP's entry has no other field for trust.
pub const UNTRUSTED_TAG: &str = "source:untrusted";

/// The redacted text of a rule. Only `Admission::admit_rule` and `readmit_rule` make one.
#[derive(Clone, PartialEq)]
pub struct RuleText(Redacted);

impl RuleText {
    /// The text of the rule, redacted.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl std::fmt::Debug for RuleText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleText")
            .field("bytes", &self.0.as_str().len())
            .finish_non_exhaustive()
    }
}

impl Admission<'_> {
    /// Admits one draft or refuses it. The error names a field and a limit, never a value.
    pub fn admit(&self, scope: &Scope, draft: Draft) -> Result<Admitted, Rejection> {
        check_name(self.redactor, "memoryRef", scope.memory_ref.as_str())?;
        if let Some(origin) = &draft.origin {
            check_name(self.redactor, "id", origin.id.as_str())?;
        }
        self.check_input_bounds(&draft)?;
        if !draft.tier.allows(draft.typology) {
            return Err(Rejection::UnsupportedTierTypology {
                tier: draft.tier.as_str(),
                typology: draft.typology.as_str(),
            });
        }
        if draft.expires_at.is_some_and(|end| end <= self.now) {
            return Err(Rejection::AlreadyExpired);
        }
        let mut flags = BTreeSet::new();
        let content = self.clean(&draft.content, &mut flags);
        let (facets, tags) = self.check_facets(&draft)?;
        let tags = self.tags(&tags, &mut flags)?;
        let metadata = draft
            .metadata
            .map(|map| self.metadata(map, &mut flags))
            .transpose()?;
        check_limit(
            "content",
            "bytes",
            content.as_str().len(),
            self.policy.content_bytes_max,
        )?;
        Ok(Admitted {
            scope: scope.clone(),
            content,
            tags,
            metadata,
            expires_at: draft.expires_at,
            tier: draft.tier,
            typology: draft.typology,
            subjects: distinct(draft.subjects),
            facets,
            origin: draft.origin,
            flags: flags.into_iter().collect(),
            redaction_fingerprint: self.redaction_fingerprint,
        })
    }

    /// Checks and redacts the text of a new rule.
    pub fn admit_rule(&self, text: &str) -> Result<RuleText, Rejection> {
        if text.is_empty() {
            return Err(Rejection::Empty { field: "body" });
        }
        check_limit("body", "bytes", text.len(), self.policy.content_bytes_max)?;
        Ok(RuleText(
            self.clean(&text.replace('\0', " "), &mut BTreeSet::new()),
        ))
    }

    /// Redacts the text of a stored rule by the current redaction rules. Nothing is refused, for
    /// the reason given at `readmit`.
    #[must_use]
    pub fn readmit_rule(&self, text: &str) -> RuleText {
        RuleText(self.clean(text, &mut BTreeSet::new()))
    }

    /// Redacts a short stored text (a tag, a label, the name of an action) by the current rules,
    /// and cuts it to the length of a tag if a marker made it longer.
    #[must_use]
    pub fn redact_short_text(&self, text: &str) -> String {
        let mut flags = BTreeSet::new();
        let clean = self.clean(text, &mut flags);
        if clean.as_str() == text {
            return clean.into_string();
        }
        self.short_tag(text, &mut flags).into_string()
    }

    /// Checks the attributes beside the text and returns them with the final tags. In order: an
    /// interaction and a session are given exactly for the tiers that need them, names hold no
    /// secret, a validity window is well formed and belongs to a statement, and a slot is not given
    /// for an episode. Trust and the untrusted tag are then made to agree; the lower of the two
    /// counts.
    fn check_facets(&self, draft: &Draft) -> Result<(Facets, Vec<String>), Rejection> {
        let mut facets = draft.facets.clone();
        let mut tags = draft.tags.clone();
        if (draft.tier == Tier::Interaction) != facets.interaction.is_some() {
            return Err(Rejection::Invalid {
                field: "interaction",
                rule: "goes with the interaction tier, and only with that",
            });
        }
        if (draft.tier != Tier::Persistent) != facets.session.is_some() {
            return Err(Rejection::Invalid {
                field: "session",
                rule: "goes with the interaction and session tiers, and only with those",
            });
        }
        self.check_names(&facets)?;
        if draft.typology != Typology::Semantic
            && (facets.valid_at.is_some() || facets.invalid_at.is_some())
        {
            return Err(Rejection::Invalid {
                field: "validFrom",
                rule: "is allowed for semantic entries only",
            });
        }
        if draft.typology == Typology::Episodic && facets.slot.is_some() {
            return Err(Rejection::Invalid {
                field: "slot",
                rule: "is not for episodes: they accumulate",
            });
        }
        if facets
            .invalid_at
            .is_some_and(|to| facets.valid_at.is_none_or(|from| to < from))
        {
            return Err(Rejection::Invalid {
                field: "validTo",
                rule: "must not be before validFrom",
            });
        }
        let marked = tags.iter().any(|tag| tag == UNTRUSTED_TAG);
        if marked {
            sabotage!(
                "a-tag-does-not-lower-trust",
                facets.trust = Trust::Untrusted
            );
        } else if facets.trust == Trust::Untrusted {
            sabotage!(
                "untrusted-is-not-marked",
                tags.push(UNTRUSTED_TAG.to_owned())
            );
        }
        if facets.trust == Trust::Untrusted {
            // An entry from an untrusted source must not replace another entry, so it loses its
            // slot.
            sabotage!("untrusted-answers-questions", facets.slot = None);
        }
        Ok((facets, tags))
    }

    /// Redacts every text of a record. The caller checks the size limits of its kind of record.
    #[must_use]
    pub fn redact_record(&self, body: Map<String, Value>) -> RecordBody {
        RecordBody(self.clean_map(body, &mut BTreeSet::new()))
    }

    /// Redacts every text of a typed record.
    #[must_use]
    pub fn redact_stored<T: StoredRecord>(&self, record: &T) -> RecordBody {
        sabotage!(
            "typed-records-are-stored-as-they-are",
            self.redact_record(record.to_map()),
            RecordBody(record.to_map())
        )
    }

    /// Redacts one text that a caller wrote.
    #[must_use]
    pub fn redact_text(&self, text: &str) -> Redacted {
        self.clean(text, &mut BTreeSet::new())
    }

    /// Checks and redacts tags that are stored outside an entry, by the rules for tags of entries.
    pub fn admit_tags(&self, tags: &[String]) -> Result<Vec<String>, Rejection> {
        check_limit("tags", "items", tags.len(), self.policy.tags_max)?;
        for tag in tags {
            check_limit(
                "tags",
                "characters",
                tag.chars().count(),
                self.policy.tag_chars_max,
            )?;
        }
        Ok(self
            .tags(tags, &mut BTreeSet::new())?
            .into_iter()
            .map(Redacted::into_string)
            .collect())
    }

    /// Redacts a stored entry again before it is shown. An entry that was written under other rules
    /// (a secret registered since, a newer table of shapes, a stricter policy) is shown as it would
    /// be stored today.
    #[must_use]
    pub fn redact_for_reader(&self, mut entry: Entry) -> Entry {
        if entry.redaction_fingerprint
            == sabotage!(
                "no-second-look-on-read",
                self.redaction_fingerprint,
                entry.redaction_fingerprint
            )
        {
            return entry;
        }
        let mut flags = BTreeSet::new();
        entry.content = self.clean(&entry.content, &mut flags).into_string();
        for tag in &mut entry.tags {
            *tag = self.clean(tag, &mut flags).into_string();
        }
        entry.metadata = entry.metadata.map(|map| self.clean_map(map, &mut flags));
        self.clean_names(&mut entry.facets);
        entry
    }

    /// Redacts a stored entry by the current rules, so that it can be stored again. Nothing is
    /// refused: a secret must go even if the redacted text exceeds a limit. Content and metadata
    /// may thus outgrow their limits (a marker can be longer than the text it replaces, some ten
    /// times at the worst); a tag is cut, because stores index it.
    #[must_use]
    pub fn readmit(&self, tenant: &TenantId, entry: Entry) -> Admitted {
        let mut flags = BTreeSet::new();
        let mut facets = entry.facets;
        let slot = facets.slot.clone();
        self.clean_names(&mut facets);
        // Two slots that differ in secrets only would become one slot, which only one entry may
        // answer. An entry whose slot must not be stored therefore gets none.
        if facets.slot != slot {
            facets.slot = None;
        }
        let mut tags: Vec<Redacted> = Vec::with_capacity(entry.tags.len());
        for tag in &entry.tags {
            let clean = self.short_tag(tag, &mut flags);
            if !tags.contains(&clean) {
                tags.push(clean);
            }
        }
        let content = self.clean(&entry.content, &mut flags);
        let metadata = entry
            .metadata
            .map(|map| Value::Object(self.clean_map(map, &mut flags)).to_string());
        Admitted {
            scope: Scope::new(tenant.clone(), entry.memory_ref),
            content,
            tags,
            metadata,
            expires_at: entry.expires_at,
            tier: entry.tier,
            typology: entry.typology,
            subjects: Vec::new(),
            facets,
            origin: None,
            flags: flags.into_iter().collect(),
            redaction_fingerprint: self.redaction_fingerprint,
        }
    }

    /// Redacts a tag and cuts it to its limit. A cut text is redacted again: cutting can create the
    /// shape of a secret where there was none.
    fn short_tag(&self, tag: &str, flags: &mut BTreeSet<ShapeKind>) -> Redacted {
        let mut clean = self.clean(tag, flags);
        let mut keep = self.policy.tag_chars_max;
        while clean.as_str().chars().count() > self.policy.tag_chars_max && keep > 0 {
            let head: String = clean.as_str().chars().take(keep).collect();
            clean = self.clean(&head, flags);
            keep /= 2;
        }
        clean
    }

    /// Bounds the work of redaction itself. These limits are generous; the real ones are checked on
    /// the redacted result.
    fn check_input_bounds(&self, draft: &Draft) -> Result<(), Rejection> {
        if draft.content.is_empty() {
            return Err(Rejection::Empty { field: "content" });
        }
        if draft.content.trim().is_empty() {
            return Err(Rejection::Invalid {
                field: "content",
                rule: "must not be white space alone",
            });
        }
        if draft.content.len() > self.policy.content_bytes_max.saturating_mul(2) {
            return check_limit(
                "content",
                "bytes",
                draft.content.len(),
                self.policy.content_bytes_max,
            );
        }
        check_limit("subjects", "items", draft.subjects.len(), SUBJECTS_MAX)?;
        check_limit("tags", "items", draft.tags.len(), self.policy.tags_max)?;
        for tag in &draft.tags {
            check_limit(
                "tags",
                "characters",
                tag.chars().count(),
                self.policy.tag_chars_max,
            )?;
        }
        if let Some(map) = &draft.metadata {
            check_limit(
                "metadata",
                "levels",
                depth_of_map(map),
                self.policy.metadata_depth_max,
            )?;
        }
        Ok(())
    }

    fn clean(&self, text: &str, flags: &mut BTreeSet<ShapeKind>) -> Redacted {
        let cleaned = self.redactor.clean(text, self.policy.shapes);
        flags.extend(cleaned.shapes);
        cleaned.text
    }

    /// Redacts tags. Empty tags are dropped and repeated ones kept once; the order is the caller's.
    fn tags(
        &self,
        tags: &[String],
        flags: &mut BTreeSet<ShapeKind>,
    ) -> Result<Vec<Redacted>, Rejection> {
        let mut kept: Vec<Redacted> = Vec::with_capacity(tags.len());
        for tag in tags.iter().filter(|t| !t.is_empty()) {
            if tag.chars().any(char::is_control) {
                return Err(Rejection::Invalid {
                    field: "tags",
                    rule: "must not contain control characters",
                });
            }
            let clean = sabotage!(
                "tags-unredacted",
                self.clean(tag, flags),
                Redactor::empty().clean(tag, crate::ShapePolicy::Off).text
            );
            check_limit(
                "tags",
                "characters",
                clean.as_str().chars().count(),
                self.policy.tag_chars_max,
            )?;
            if !kept.contains(&clean) {
                kept.push(clean);
            }
        }
        Ok(kept)
    }

    fn metadata(
        &self,
        map: Map<String, Value>,
        flags: &mut BTreeSet<ShapeKind>,
    ) -> Result<String, Rejection> {
        let text = Value::Object(self.clean_map(map, flags)).to_string();
        check_limit(
            "metadata",
            "bytes",
            text.len(),
            self.policy.metadata_bytes_max,
        )?;
        Ok(text)
    }

    fn clean_map(
        &self,
        map: Map<String, Value>,
        flags: &mut BTreeSet<ShapeKind>,
    ) -> Map<String, Value> {
        let mut out = Map::new();
        for (key, value) in map {
            let mut name = self.clean(&key, flags).into_string();
            // Two keys may become the same marker; neither value is lost.
            while out.contains_key(&name) {
                name.push('+');
            }
            out.insert(name, self.clean_value(value, flags));
        }
        out
    }

    fn clean_value(&self, value: Value, flags: &mut BTreeSet<ShapeKind>) -> Value {
        match value {
            Value::String(text) => Value::String(self.clean(&text, flags).into_string()),
            Value::Array(items) => Value::Array(
                items
                    .into_iter()
                    .map(|v| self.clean_value(v, flags))
                    .collect(),
            ),
            Value::Object(map) => Value::Object(self.clean_map(map, flags)),
            // A secret made of digits can arrive as a JSON number.
            Value::Number(number)
                if self
                    .redactor
                    .has_findings(&number.to_string(), self.policy.shapes) =>
            {
                Value::String(self.clean(&number.to_string(), flags).into_string())
            }
            other => other,
        }
    }
}

fn check_limit(
    field: &'static str,
    unit: &'static str,
    actual: usize,
    limit: usize,
) -> Result<(), Rejection> {
    if actual <= limit {
        Ok(())
    } else {
        Err(Rejection::TooLarge {
            field,
            unit,
            limit: limit as u64,
            actual: actual as u64,
        })
    }
}

fn distinct(mut subjects: Vec<Subject>) -> Vec<Subject> {
    subjects.sort_unstable();
    subjects.dedup();
    subjects
}

fn depth_of_map(map: &Map<String, Value>) -> usize {
    1 + map.values().map(depth).max().unwrap_or(0)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => depth_of_map(map),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl Admitted {
    /// The memory that it was admitted to.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
    /// The text of the entry, redacted.
    #[must_use]
    pub fn content(&self) -> &str {
        self.content.as_str()
    }
    /// The tags of the entry, redacted and without duplicates.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(Redacted::as_str)
    }
    /// The redacted metadata as JSON text.
    #[must_use]
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }
    /// The instant at which the entry expires, if it does.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }
    /// The tier, which decides how long the entry lasts.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }
    /// The kind: episodic, semantic or procedural.
    #[must_use]
    pub fn typology(&self) -> Typology {
        self.typology
    }
    /// The persons and things that the entry is about.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }
    /// The attributes beside the text: session, slot, validity window, trust and so on.
    #[must_use]
    pub fn facets(&self) -> &Facets {
        &self.facets
    }
    /// Its identity on the host that it was imported from.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }
    /// The kinds of secret shapes that were found in it.
    #[must_use]
    pub fn flags(&self) -> &[ShapeKind] {
        &self.flags
    }
    /// The fingerprint of the redaction rules that it passed.
    #[must_use]
    pub fn redaction_fingerprint(&self) -> u64 {
        self.redaction_fingerprint
    }
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admitted")
            .field("scope", &self.scope)
            .field("content_bytes", &self.content.as_str().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{EntryId, InteractionId, MemoryRef, SessionId, WorldId};
    use crate::redact::SecretValue;
    use serde_json::json;

    fn scope(memory_ref: &str) -> Scope {
        Scope::new(
            TenantId::parse("t").unwrap(),
            MemoryRef::parse(memory_ref).unwrap(),
        )
    }

    fn check(draft: Draft) -> Result<Admitted, Rejection> {
        let redactor = Redactor::new([
            SecretValue::new("db", "hunter2-hunter2"),
            SecretValue::new("pin", "9876543210"),
        ]);
        let policy = Policy::default();
        Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 7,
            now: Timestamp(1_000),
        }
        .admit(&scope("m"), draft)
    }

    fn draft(content: &str) -> Draft {
        Draft {
            content: content.into(),
            ..Draft::default()
        }
    }

    #[test]
    fn the_untrusted_tag_makes_a_draft_untrusted() {
        let tagged = |trust| Draft {
            tags: vec![UNTRUSTED_TAG.into()],
            facets: Facets {
                trust,
                ..Facets::default()
            },
            ..draft("Trust me.")
        };
        for trust in [Trust::Untrusted, Trust::Model, Trust::Operator] {
            let admitted = check(tagged(trust)).unwrap();
            assert_eq!(admitted.facets().trust, Trust::Untrusted, "{trust:?}");
        }
    }

    #[test]
    fn content_tags_and_metadata_are_redacted_on_admission() {
        let metadata = json!({"hunter2-hunter2": 1, "deep": [{"pw": "x hunter2-hunter2"}], "n": 9876543210u64, "ok": 42});
        let admitted = check(Draft {
            tags: vec![
                "pw:hunter2-hunter2".into(),
                String::new(),
                "a".into(),
                "a".into(),
            ],
            metadata: metadata.as_object().cloned(),
            ..draft("the password is hunter2-hunter2.")
        })
        .unwrap();
        assert_eq!(admitted.content(), "the password is [REDACTED:db].");
        assert_eq!(
            admitted.tags().collect::<Vec<_>>(),
            ["pw:[REDACTED:db]", "a"]
        );
        let metadata: Value = serde_json::from_str(admitted.metadata().unwrap()).unwrap();
        assert_eq!(
            metadata,
            json!({"[REDACTED:db]": 1, "deep": [{"pw": "x [REDACTED:db]"}], "n": "[REDACTED:pin]", "ok": 42})
        );
        assert_eq!(admitted.redaction_fingerprint(), 7);
    }

    /// An entry that was written before its secret was registered.
    fn stored() -> Entry {
        let metadata = json!({"pw": "hunter2-hunter2"}).as_object().cloned();
        Entry {
            id: EntryId::parse("e").unwrap(),
            memory_ref: MemoryRef::parse("m").unwrap(),
            content: "it is hunter2-hunter2".into(),
            tags: vec!["hunter2-hunter2".into()],
            metadata,
            created_at: Timestamp(0),
            expires_at: None,
            tier: Tier::default(),
            typology: Typology::default(),
            facets: Facets::default(),
            visible: crate::entry::RevisionRange {
                from: crate::Revision(1),
                to: None,
            },
            redaction_fingerprint: 1,
        }
    }

    #[test]
    fn stored_entries_are_redacted_on_read_by_the_current_rules() {
        let entry = stored();
        let redactor = Redactor::new([SecretValue::new("db", "hunter2-hunter2")]);
        let policy = Policy::default();
        let admission = |scan| Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: scan,
            now: Timestamp(0),
        };
        let shown = admission(2).redact_for_reader(entry.clone());
        assert_eq!(
            (shown.content.as_str(), &shown.tags[..]),
            ("it is [REDACTED:db]", &["[REDACTED:db]".to_owned()][..])
        );
        assert_eq!(shown.metadata.as_ref().unwrap()["pw"], "[REDACTED:db]");
        assert_eq!(
            admission(1).redact_for_reader(entry.clone()),
            entry,
            "the same rules need no second look"
        );
    }

    #[test]
    fn readmission_redacts_even_if_markers_outgrow_the_size_limits() {
        let id = "a-long-name-for-a-short-value-makes-a-marker-that-outgrows-it";
        let redactor = Redactor::new([SecretValue::new(id, "hunter2!")]);
        let policy = Policy::default();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 2,
            now: Timestamp(9),
        };
        let entry = Entry {
            id: EntryId::parse("e").unwrap(),
            memory_ref: MemoryRef::parse("agents/hunter2!").unwrap(),
            content: "hunter2! ".repeat(7_000),
            tags: vec!["hunter2! ".repeat(28), "short".into(), "hunter2!".into()],
            metadata: json!({"a": "hunter2! ".repeat(1_700)}).as_object().cloned(),
            created_at: Timestamp(0),
            expires_at: Some(Timestamp(1)),
            tier: Tier::Session,
            typology: Typology::Episodic,
            facets: Facets::default(),
            visible: crate::entry::RevisionRange {
                from: crate::Revision(1),
                to: None,
            },
            redaction_fingerprint: 1,
        };
        let admitted = admission.readmit(&TenantId::parse("t").unwrap(), entry);
        assert_eq!(
            (
                admitted.redaction_fingerprint(),
                admitted.tier(),
                admitted.expires_at()
            ),
            (2, Tier::Session, Some(Timestamp(1)))
        );
        assert_eq!(
            admitted.content(),
            format!("[REDACTED:{id}] ").repeat(7_000),
            "nothing around a value is lost"
        );
        assert!(admitted.content().len() > policy.content_bytes_max);
        assert!(admitted.metadata().unwrap().len() > policy.metadata_bytes_max);
        let tags: Vec<&str> = admitted.tags().collect();
        assert_eq!(tags[1..], ["short", &format!("[REDACTED:{id}]")]);
        assert!(
            tags[0].chars().count() <= policy.tag_chars_max,
            "{}",
            tags[0].len()
        );
        for text in [
            admitted.content(),
            admitted.metadata().unwrap(),
            tags[0],
            tags[2],
        ] {
            assert!(text.contains("[REDACTED:") && !text.contains("hunter2"));
        }
    }

    #[test]
    fn metadata_keys_that_redact_to_the_same_key_keep_both_values() {
        let metadata = json!({"a hunter2-hunter2": 1, "a [REDACTED:db]": 2});
        let admitted = check(Draft {
            metadata: metadata.as_object().cloned(),
            ..draft("x")
        })
        .unwrap();
        let kept: Value = serde_json::from_str(admitted.metadata().unwrap()).unwrap();
        assert_eq!(kept.as_object().unwrap().len(), 2);
    }

    #[test]
    fn a_secret_in_a_ref_or_id_is_rejected_without_echoing_it() {
        let redactor = Redactor::new([SecretValue::new("db", "hunter2-hunter2")]);
        let policy = Policy::default();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 0,
            now: Timestamp(0),
        };
        let error = admission
            .admit(&scope("agents/hunter2-hunter2"), draft("x"))
            .unwrap_err();
        assert_eq!(error, Rejection::SecretInName { field: "memoryRef" });
        assert!(!error.to_string().contains("hunter2"));
        let origin = Some(Origin {
            id: EntryId::parse("hunter2-hunter2").unwrap(),
            created_at: None,
        });
        assert_eq!(
            admission
                .admit(
                    &scope("m"),
                    Draft {
                        origin,
                        ..draft("x")
                    }
                )
                .unwrap_err(),
            Rejection::SecretInName { field: "id" }
        );
    }

    /// Attributes with a name that holds a secret, one for each kind of name.
    fn secret_names() -> [(&'static str, Facets); 3] {
        let interaction = InteractionId::parse("thread hunter2-hunter2");
        let session = SessionId::parse("s1");
        [
            (
                "world",
                Facets {
                    world: WorldId::parse("w.hunter2-hunter2").unwrap(),
                    ..Facets::default()
                },
            ),
            (
                "slot",
                Facets {
                    slot: Some("hunter2-hunter2?".to_owned()),
                    ..Facets::default()
                },
            ),
            (
                "interaction",
                Facets {
                    interaction,
                    session,
                    ..Facets::default()
                },
            ),
        ]
    }

    #[test]
    fn a_secret_in_any_facet_name_is_rejected() {
        for (field, facets) in secret_names() {
            let tier = if facets.interaction.is_some() {
                Tier::Interaction
            } else {
                Tier::default()
            };
            let typology = if facets.interaction.is_some() {
                Typology::Episodic
            } else {
                Typology::Semantic
            };
            let draft = Draft {
                tier,
                typology,
                facets,
                ..draft("x")
            };
            assert_eq!(check(draft), Err(Rejection::SecretInName { field }));
        }
    }

    #[test]
    fn facet_names_are_redacted_on_read_and_on_readmission() {
        let redactor = Redactor::new([SecretValue::new("db", "hunter2-hunter2")]);
        let policy = Policy::default();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 2,
            now: Timestamp(0),
        };
        for (field, facets) in secret_names() {
            let entry = Entry { facets, ..stored() };
            let shown = admission.redact_for_reader(entry.clone());
            let kept = admission.readmit(&TenantId::parse("t").unwrap(), entry);
            for facets in [&shown.facets, kept.facets()] {
                assert!(!format!("{facets:?}").contains("hunter2"), "{field}");
            }
        }
        assert_eq!(
            admission.redact_for_reader(stored()).facets,
            stored().facets
        );
    }

    #[test]
    fn oversized_content_tags_and_metadata_are_rejected() {
        let field_of = |r: Result<Admitted, Rejection>| r.unwrap_err().field();
        assert_eq!(field_of(check(draft(""))), Some("content"));
        assert_eq!(field_of(check(draft(&"x".repeat(65_537)))), Some("content"));
        assert!(check(draft(&"x".repeat(65_536))).is_ok());
        assert_eq!(
            field_of(check(Draft {
                tags: vec!["t".into(); 65],
                ..draft("x")
            })),
            Some("tags")
        );
        assert_eq!(
            field_of(check(Draft {
                tags: vec!["é".repeat(257)],
                ..draft("x")
            })),
            Some("tags")
        );
        assert_eq!(
            field_of(check(Draft {
                tags: vec!["a\nb".into()],
                ..draft("x")
            })),
            Some("tags")
        );
        let mut deep = json!(1);
        for _ in 0..8 {
            deep = json!([deep]);
        }
        assert_eq!(
            field_of(check(Draft {
                metadata: json!({ "d": deep }).as_object().cloned(),
                ..draft("x")
            })),
            Some("metadata")
        );
        let wide = json!({ "d": "x".repeat(16_384) });
        assert_eq!(
            field_of(check(Draft {
                metadata: wide.as_object().cloned(),
                ..draft("x")
            })),
            Some("metadata")
        );
    }

    #[test]
    fn past_expiry_and_unsupported_tier_typology_are_rejected() {
        assert_eq!(
            check(Draft {
                expires_at: Some(Timestamp(1_000)),
                ..draft("x")
            })
            .unwrap_err(),
            Rejection::AlreadyExpired
        );
        assert!(
            check(Draft {
                expires_at: Some(Timestamp(1_001)),
                ..draft("x")
            })
            .is_ok()
        );
        let episode = Draft {
            typology: Typology::Episodic,
            ..draft("x")
        };
        assert!(matches!(
            check(episode).unwrap_err(),
            Rejection::UnsupportedTierTypology { .. }
        ));
    }
}
