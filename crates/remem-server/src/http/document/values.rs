//! Which values the fields of requests and answers take: the words of closed sets, the bounds of
//! numbers and of texts. The engine enforces them; this documents them for callers.

use super::is_of_type;
use remem_core::admission::SLOT_CHARS_MAX;
use remem_core::commitment::CommitmentState;
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::redact::FLOOR_CHARS;
use remem_core::subject::SUBJECT_CHARS_MAX;
use remem_core::webhook::SECRET_CHARS;
use remem_core::{Permission, Policy, RunStatus, ShapePolicy};
use remem_engine::commitments::ArmMode;
use remem_engine::context::BUDGET_MAX;
use remem_engine::jobs::{JobState, Trigger};
use remem_engine::keys::LABEL_CHARS_MAX;
use remem_engine::proposals::OVERRIDE_REASONS;
use remem_engine::search::NEIGHBOURS_MAX;
use remem_engine::vault::{NAME_CHARS_MAX, SecretScope};
use remem_engine::workspace::{CONTENT_TYPE_CHARS_MAX, PATH_CHARS_MAX};
use remem_wire::{entry, number};
use serde_json::{Value, json};

/// Largest number of characters of a memory's name.
const MEMORY_REF_CHARS: (usize, usize) = (1, 256);

/// Adds the possible values of every parameter and of every field of a schema.
pub(super) fn add(document: &mut Value, policy: &Policy) {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(|paths| paths.values_mut());
    let operations = items
        .filter_map(Value::as_object_mut)
        .flat_map(|item| item.values_mut());
    for operation in operations {
        let id = operation["operationId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let parameters = operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default().to_owned();
            let schema = &mut parameter["schema"];
            // An absent value is left out; null cannot be sent.
            if schema["type"] == json!(["string", "null"]) {
                schema["type"] = json!("string");
            }
            limit(schema, &id, &name, policy);
            bound_number(schema, &name);
        }
    }
    let schemas = document.pointer_mut("/components/schemas");
    let schemas = schemas.and_then(Value::as_object_mut);
    for (name, schema) in schemas.into_iter().flatten() {
        // Only requests refuse what they do not know.
        let is_request = is_request(name);
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (field, inner) in fields.into_iter().flatten() {
            limit(inner, name, field, policy);
            if is_request {
                bound_number(inner, field);
            }
        }
    }
}

/// Whether the schema is part of a request.
fn is_request(name: &str) -> bool {
    [
        "Put", "Request", "Create", "Fork", "Run", "Register", "Snooze",
    ]
    .iter()
    .any(|ending| name.ends_with(ending))
        || ["PutEntry", "ImportEntry", "PutMany"].contains(&name)
}

fn limit(schema: &mut Value, owner: &str, field: &str, policy: &Policy) {
    if let Some(words) = words(owner, field) {
        choose(schema, &words);
    }
    if let Some((least, most)) = characters(owner, field, policy) {
        let texts = match is_of_type(schema, "array") {
            true => &mut schema["items"],
            false => schema,
        };
        if is_of_type(texts, "string") {
            texts["minLength"] = json!(least);
            texts["maxLength"] = json!(most);
        }
    }
}

/// Adds the words that a text, or each text of a list, can be.
fn choose(schema: &mut Value, words: &[&str]) {
    if is_of_type(schema, "array") {
        return choose(&mut schema["items"], words);
    }
    let mut values: Vec<Value> = words.iter().map(|word| json!(word)).collect();
    if is_of_type(schema, "null") {
        values.push(Value::Null);
    }
    schema["enum"] = Value::Array(values);
}

/// Sets the least and the greatest number: those of the field's type, or the documented limit.
fn bound_number(schema: &mut Value, field: &str) {
    if !is_of_type(schema, "integer") {
        return;
    }
    let (least, most) = match field {
        "tokenBudget" => (1, BUDGET_MAX),
        "neighbours" => (0, u64::from(NEIGHBOURS_MAX)),
        "perSource" => (1, u64::from(u32::MAX)),
        _ if schema["format"] == "int32" => (0, u64::from(u32::MAX)),
        _ => (0, number::MAX),
    };
    // A number without a sign goes beyond the signed one of as many bits.
    schema["format"] = json!("int64");
    schema["minimum"] = json!(least);
    schema["maximum"] = json!(most);
}

/// The words that a field can be, by the schema or operation and its name; `None` if it is free.
fn words(owner: &str, field: &str) -> Option<Vec<&'static str>> {
    Some(match (owner, field) {
        ("list_commitments" | "CommitmentDoc", "state") => {
            CommitmentState::ALL.map(CommitmentState::as_str).to_vec()
        }
        ("CommitmentDoc", "condition") => vec!["time", "predicate"],
        ("CommitmentRulesPut" | "CommitmentRulesDoc", "arm") => {
            ArmMode::ALL.map(ArmMode::as_str).to_vec()
        }
        ("list_jobs" | "JobDoc", "state") => JobState::ALL.map(JobState::as_str).to_vec(),
        ("JobDoc", "trigger") => Trigger::ALL.map(Trigger::as_str).to_vec(),
        ("list_proposals" | "Proposal", "state") => {
            ProposalState::ALL.map(ProposalState::as_str).to_vec()
        }
        ("list_proposals" | "Proposal" | "ProposalSubmit", "kind") => {
            ProposalKind::ALL.map(ProposalKind::as_str).to_vec()
        }
        ("ProposalOverride", "reason") => OVERRIDE_REASONS.to_vec(),
        ("list_entries", "rank") => vec!["recency", "relevance"],
        ("SearchRequest" | "RecallRequest", "mode") => {
            vec!["hybrid", "lexical", "filter", "semantic"]
        }
        ("SearchAnswer" | "RecallAnswer", "mode") => vec!["hybrid", "lexical", "semantic"],
        ("SearchRequest" | "RecallRequest", "time") => vec!["filter", "prefer", "ignore"],
        ("delete_secret" | "SecretPut" | "SecretInfo", "scope") => {
            [SecretScope::Tenant, SecretScope::User]
                .map(SecretScope::as_str)
                .to_vec()
        }
        ("TenantPut" | "TenantInfo", "shapes") => {
            let all = [ShapePolicy::Redact, ShapePolicy::Flag, ShapePolicy::Off];
            all.map(ShapePolicy::as_str).to_vec()
        }
        ("KeyCreate" | "KeyInfo" | "Whoami", "scopes") => {
            Permission::ALL.map(Permission::as_str).to_vec()
        }
        ("RunFork" | "RunForked", "mode") => vec!["replay", "branch"],
        ("RunCreated" | "RunSnapshot" | "RunForked", "status") => {
            use RunStatus::{Cancelled, Completed, Failed, Running};
            [Running, Completed, Failed, Cancelled]
                .map(RunStatus::as_str)
                .to_vec()
        }
        ("SessionDoc", "state") => vec!["open", "closing", "closed"],
        ("WebhookInfo", "state") => vec!["active", "paused"],
        ("WorkflowListed", "scope") => vec!["tenant", "host"],
        _ => return None,
    })
}

/// The least and the greatest length of a text in a request, or of each text of a list.
fn characters(owner: &str, field: &str, policy: &Policy) -> Option<(usize, usize)> {
    Some(match (owner, field) {
        (_, "Idempotency-Key") => (1, policy.idempotency_key_chars_max),
        ("PutEntry" | "ImportEntry", "content") => (1, policy.request_bytes_max),
        ("PutEntry" | "ImportEntry" | "SearchRequest" | "RecallRequest", "tags") => {
            (0, policy.tag_chars_max)
        }
        ("PutEntry" | "ImportEntry" | "CommitmentCreate", "subjects") => (1, SUBJECT_CHARS_MAX),
        ("PutEntry", "slot") => (1, SLOT_CHARS_MAX),
        ("PutEntry", "sourceRef") => (1, entry::SOURCE_REF_CHARS_MAX),
        ("SearchRequest" | "RecallRequest", "query") => (1, policy.query_chars_max),
        ("put_entry" | "HeartbeatPut" | "PassRun", "memoryRef") => MEMORY_REF_CHARS,
        ("KeyCreate", "label") => (0, LABEL_CHARS_MAX),
        ("ProposalSubmit" | "ProposalPatch", "title") => (0, policy.proposal_title_chars_max),
        ("ProposalSubmit" | "ProposalPatch", "rationale") | ("ProposalOverride", "note") => {
            (0, policy.proposal_text_chars_max)
        }
        ("SecretPut", "value") => (FLOOR_CHARS, policy.secret_chars_max),
        ("set_secret", "name") => (1, NAME_CHARS_MAX),
        ("WebhookRegister", "url") => (1, policy.webhook_url_chars_max),
        ("WebhookRegister", "secret") => (*SECRET_CHARS.start(), *SECRET_CHARS.end()),
        ("put_file", "path") => (1, PATH_CHARS_MAX),
        ("WorkspaceFilePut", "contentType") => (0, CONTENT_TYPE_CHARS_MAX),
        _ => return None,
    })
}
