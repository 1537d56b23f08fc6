//! Personal data in workshop memories: texts shaped like stack traces or logs are refused, personal
//! data is replaced by a pseudonym, and each person becomes a subject that can be forgotten.

use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::admission::SUBJECTS_MAX;
use remem_core::sabotage;
use remem_core::{Draft, Rejection, TenantId, mask, trace_kind};
use serde_json::{Map, Value};

impl Engine {
    /// Refuses a draft shaped like a trace, masks its personal data, and adds the persons as
    /// subjects.
    pub(super) fn mask_pii(
        &self,
        tenant: &TenantId,
        mut draft: Draft,
    ) -> Result<Draft, EngineError> {
        if let Some(shape) = trace_kind(&draft.content) {
            return Err(Rejection::CopiedData {
                what: shape.as_str(),
            }
            .into());
        }
        let mut people = Vec::new();
        draft.content = self.mask_text(tenant, &draft.content, &mut people);
        for tag in &mut draft.tags {
            *tag = self.mask_text(tenant, tag, &mut people);
        }
        draft.metadata = draft
            .metadata
            .map(|map| self.mask_map(tenant, map, &mut people));
        people.sort_unstable();
        people.dedup();
        if draft.subjects.len() + people.len() > SUBJECTS_MAX {
            return Err(Rejection::CopiedData {
                what: "a list of personal data",
            }
            .into());
        }
        for normal in people {
            sabotage!(
                "who-was-masked-cannot-be-forgotten",
                draft.subjects.push(self.subject_digest(tenant, &normal)?)
            );
        }
        Ok(draft)
    }

    /// Replaces personal data in a text by pseudonyms; adds what was found to `people`.
    fn mask_text(&self, tenant: &TenantId, text: &str, people: &mut Vec<String>) -> String {
        let (masked, found) = mask(text, |kind, normal| {
            self.pseudonym(tenant, kind.as_str(), normal)
        });
        people.extend(found.into_iter().map(|(_, normal)| normal));
        masked
    }

    /// Masks all texts in a JSON object.
    fn mask_map(
        &self,
        tenant: &TenantId,
        map: Map<String, Value>,
        people: &mut Vec<String>,
    ) -> Map<String, Value> {
        map.into_iter()
            .map(|(key, value)| (key, self.mask_value(tenant, value, people)))
            .collect()
    }

    /// Masks all texts in a JSON value.
    fn mask_value(&self, tenant: &TenantId, value: Value, people: &mut Vec<String>) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask_text(tenant, &text, people)),
            Value::Array(items) => Value::Array(
                items
                    .into_iter()
                    .map(|item| self.mask_value(tenant, item, people))
                    .collect(),
            ),
            Value::Object(map) => Value::Object(self.mask_map(tenant, map, people)),
            other => other,
        }
    }
}
