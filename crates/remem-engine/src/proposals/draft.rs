//! Converting a caller's draft to its stored form: first redacted, then serialised canonically, so
//! that the hash is that of the stored bytes. This file has the limits of a draft; it stores
//! nothing.

use super::ProposalError;
use super::stored::StoredInstallation;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::RedactionRules;
use remem_core::proposal::{Artifact, ProposalKind, duplicate_of};
use remem_core::sabotage;
use remem_core::{Admission, CleanText, Policy, RecordKind, Rejection, StoredRecord, TenantId};
use serde_json::{Map, Value};

/// How often a text that redaction changed is redacted again.
const REDACTION_ROUNDS: usize = 4;

/// A draft in its stored form.
pub(super) struct CanonicalDraft {
    pub title: Option<CleanText>,
    pub rationale: Option<CleanText>,
    pub artifact: Artifact,
}

/// Redacts a draft and serialises it canonically.
fn canonical_draft(
    admission: &Admission<'_>,
    title: Option<String>,
    rationale: Option<String>,
    artifact: Map<String, Value>,
) -> Result<CanonicalDraft, Rejection> {
    let policy = admission.policy;
    check_chars("title", title.as_deref(), policy.proposal_title_chars_max)?;
    check_chars(
        "rationale",
        rationale.as_deref(),
        policy.proposal_text_chars_max,
    )?;
    if title
        .as_deref()
        .is_some_and(|title| title.chars().any(char::is_control))
    {
        return Err(Rejection::Invalid {
            field: "title",
            rule: "must be a single line",
        });
    }
    // This also bounds the size of what is redacted.
    Artifact::new(&artifact)?;
    let clean = |text: String| {
        sabotage!(
            "proposals-are-kept-as-they-come",
            CleanText::from(admission.redact_text(&text)),
            serde_json::from_value::<CleanText>(text.into()).expect("it is a text")
        )
    };
    let title = title.map(clean);
    let rationale = rationale.map(clean);
    let mut artifact = Artifact::new(admission.redact_record(artifact).map())?;
    for _ in 0..REDACTION_ROUNDS {
        // Field by field the artifact is clean. But it is stored as one text, in which something
        // may still look like a secret.
        let redacted = admission.redact_text(artifact.text());
        if redacted.as_str() == artifact.text() {
            return Ok(CanonicalDraft {
                title,
                rationale,
                artifact,
            });
        }
        match serde_json::from_str::<Map<String, Value>>(redacted.as_str()) {
            Ok(map) => artifact = Artifact::new(admission.redact_record(map).map())?,
            Err(_) => break,
        }
    }
    Err(Rejection::Invalid {
        field: "artifact",
        rule: "holds something like a secret at a place from which it cannot be taken out",
    })
}

/// Fails if a text has too many characters.
fn check_chars(field: &'static str, text: Option<&str>, limit: usize) -> Result<(), Rejection> {
    let chars = text.map_or(0, |text| text.chars().count());
    let limit = limit as u64;
    let actual = chars as u64;
    if actual <= limit {
        Ok(())
    } else {
        Err(Rejection::TooLarge {
            field,
            unit: "characters",
            limit,
            actual,
        })
    }
}

/// Checks and redacts the note on a decision.
pub(super) fn redact_note(
    admission: &Admission<'_>,
    note: Option<String>,
) -> Result<Option<CleanText>, Rejection> {
    check_chars(
        "note",
        note.as_deref(),
        admission.policy.proposal_text_chars_max,
    )?;
    Ok(note.map(|note| admission.redact_text(&note).into()))
}

/// Fails if redaction by the rules of today would change the artifact.
pub(super) fn check_still_clean(
    rules: &RedactionRules,
    policy: &Policy,
    artifact: &Artifact,
) -> Result<(), ProposalError> {
    let admission = rules.admission(policy, remem_core::Timestamp(0));
    let map = artifact.to_map();
    let clean = admission.redact_text(artifact.text()).as_str() == artifact.text()
        && *admission.redact_record(map.clone()).map() == map;
    if clean {
        Ok(())
    } else {
        Err(ProposalError::HoldsSecret)
    }
}

impl Engine {
    /// Redacts and serialises a draft on the thread pool.
    pub(super) async fn to_canonical(
        &self,
        tenant: &TenantId,
        admission: &Admission<'_>,
        title: Option<String>,
        rationale: Option<String>,
        artifact: Map<String, Value>,
    ) -> Result<CanonicalDraft, EngineError> {
        let texts = [&title, &rationale].into_iter().flatten();
        let size =
            cpu::map_bytes(&artifact) + texts.map(|text| cpu::text_bytes(text)).sum::<usize>();
        let work = || canonical_draft(admission, title, rationale, artifact);
        Ok(self.parts.cpu.run(tenant, size, work).await??)
    }

    /// The installed artifact or open proposal that an artifact duplicates, except the proposal
    /// `but`.
    pub(super) async fn find_duplicate(
        &self,
        tenant: &TenantId,
        kind: ProposalKind,
        artifact: &Artifact,
        but: Option<&str>,
    ) -> Result<Option<String>, EngineError> {
        let mut known = Vec::new();
        let limit = u32::try_from(self.parts.policy.proposals_max).unwrap_or(u32::MAX);
        let prefix = format!("{}/", kind.as_str());
        for record in self
            .parts
            .store
            .records(tenant, RecordKind::InstalledArtifact, &prefix, None, limit)
            .await?
        {
            let artifact = StoredInstallation::read(&record).and_then(|one| one.artifact);
            let text = artifact.map_or_else(String::new, CleanText::into_string);
            known.push((record.key, text));
        }
        let store = &self.parts.proposal_store;
        let open = store
            .all_proposals(tenant)
            .await?
            .into_iter()
            .filter(|other| other.kind == kind && other.state.is_open());
        for other in open.filter(|other| Some(other.id.as_str()) != but) {
            if let Some(artifact) = store.artifact(tenant, &other).await? {
                known.push((other.id, artifact.text().to_owned()));
            }
        }
        let known = known
            .iter()
            .map(|(name, text)| (name.as_str(), kind, text.as_str()));
        Ok(duplicate_of(kind, artifact, known).map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::redact::SecretValue;
    use remem_core::{Redactor, Timestamp};
    use serde_json::json;

    #[test]
    fn a_draft_is_redacted_before_it_is_hashed() {
        let redactor = Redactor::new([SecretValue::new("pin", "tuesday-pin-4711")]);
        let policy = Policy::default();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 0,
            now: Timestamp(0),
        };
        let artifact =
            json!({"text": "say tuesday-pin-4711", "z": [{"tuesday-pin-4711": 1}], "a": 1.5});
        let artifact = artifact.as_object().cloned().unwrap();
        let draft = canonical_draft(
            &admission,
            Some("of tuesday-pin-4711".into()),
            Some("tuesday-pin-4711".into()),
            artifact,
        )
        .unwrap();
        assert_eq!(draft.title.as_deref(), Some("of [REDACTED:pin]"));
        assert_eq!(draft.rationale.as_deref(), Some("[REDACTED:pin]"));
        assert_eq!(
            draft.artifact.text(),
            r#"{"a":1.5,"text":"say [REDACTED:pin]","z":[{"[REDACTED:pin]":1}]}"#
        );
        assert_eq!(
            Artifact::from_stored(draft.artifact.text().to_owned(), draft.artifact.sha256())
                .as_ref(),
            Some(&draft.artifact)
        );
        let again = canonical_draft(
            &admission,
            draft.title.map(CleanText::into_string),
            draft.rationale.map(CleanText::into_string),
            draft.artifact.to_map(),
        )
        .unwrap();
        assert_eq!(again.artifact, draft.artifact);
    }

    #[test]
    fn a_secret_that_spans_fields_is_removed_or_refused() {
        let redactor = Redactor::new([SecretValue::new("odd", r#"left","b":"right"#)]);
        let policy = Policy::default();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 0,
            now: Timestamp(0),
        };
        let artifact = json!({"a": "left", "b": "right"})
            .as_object()
            .cloned()
            .unwrap();
        match canonical_draft(&admission, None, None, artifact) {
            Ok(draft) => assert!(!draft.artifact.text().contains(r#"left","b":"right"#)),
            Err(rejection) => assert_eq!(rejection.field(), Some("artifact")),
        }
    }

    #[test]
    fn title_and_rationale_are_validated() {
        let policy = Policy::default();
        let redactor = Redactor::empty();
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 0,
            now: Timestamp(0),
        };
        let field = |title: &str, rationale: &str| {
            canonical_draft(
                &admission,
                Some(title.to_owned()),
                Some(rationale.to_owned()),
                Map::new(),
            )
            .err()
            .and_then(|error| error.field())
        };
        assert_eq!(field("", ""), None);
        assert_eq!(field(&"x".repeat(201), ""), Some("title"));
        assert_eq!(field("a\nb", ""), Some("title"));
        assert_eq!(field("", &"x".repeat(4_001)), Some("rationale"));
    }
}
