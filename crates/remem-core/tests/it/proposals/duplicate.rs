//! Finding the artifact that another one repeats: the same bytes, or nearly the same words with the
//! same actions.

use remem_core::proposal::{Artifact, ProposalKind, duplicate_of};
use serde_json::{Value, json};

fn written(value: &Value) -> Artifact {
    Artifact::new(value.as_object().unwrap()).unwrap()
}

fn prompt(id: &str, text: &str) -> Value {
    json!({"templateId": id, "version": "1", "text": text, "variables": [{"name": "slot1", "required": true}]})
}

fn automation(id: &str, workflow: &str, cron: &str) -> Value {
    let inputs = json!({"text": "a report of what went on since yesterday, with the numbers of every team and of every region"});
    json!({"automationId": id, "schedule": {"cron": cron, "zone": "UTC"}, "workflowId": workflow, "inputs": inputs})
}

const LONG: &str = "Read the ticket {{slot1}} and write a short answer that thanks the customer for the report, says what was found, \
                    says what is done next, and ends with the usual words about how to reach us on the phone";

fn found(
    kind: ProposalKind,
    draft: &Value,
    known: &[(&'static str, ProposalKind, Value)],
) -> Option<&'static str> {
    let texts: Vec<(&'static str, ProposalKind, String)> = known
        .iter()
        .map(|(name, kind, value)| (*name, *kind, written(value).text().to_owned()))
        .collect();
    let texts: Vec<(&'static str, ProposalKind, &'static str)> = texts
        .into_iter()
        .map(|(name, kind, text)| (name, kind, &*Box::leak(text.into_boxed_str())))
        .collect();
    duplicate_of(kind, &written(draft), texts)
}

#[test]
fn an_identical_artifact_is_preferred_as_duplicate() {
    let draft = prompt("t", LONG);
    let near = prompt("t", &LONG.replace("usual", "same"));
    let known = [
        ("near", ProposalKind::PromptTemplate, near),
        ("same", ProposalKind::PromptTemplate, draft.clone()),
    ];
    assert_eq!(
        found(ProposalKind::PromptTemplate, &draft, &known),
        Some("same")
    );
    assert_eq!(
        found(ProposalKind::PromptTemplate, &draft, &known[..1]),
        Some("near")
    );
    assert_eq!(found(ProposalKind::PromptTemplate, &draft, &[]), None);
    let other = [("other", ProposalKind::Automation, draft.clone())];
    assert_eq!(
        found(ProposalKind::PromptTemplate, &draft, &other),
        None,
        "another kind is another thing"
    );
}

#[test]
fn the_most_similar_artifact_is_found_regardless_of_name() {
    let draft = prompt("t", LONG);
    let known = [
        (
            "far",
            ProposalKind::PromptTemplate,
            prompt(
                "t",
                "Read the ticket {{slot1}} and close it without an answer, please, as we always do",
            ),
        ),
        (
            "near",
            ProposalKind::PromptTemplate,
            prompt("x", &LONG.replace("usual", "same")),
        ),
        (
            "renamed",
            ProposalKind::PromptTemplate,
            prompt("quite-another-name", LONG),
        ),
        (
            "also",
            ProposalKind::PromptTemplate,
            prompt("and-one-more", LONG),
        ),
    ];
    assert_eq!(
        found(ProposalKind::PromptTemplate, &draft, &known),
        Some("renamed")
    );
    assert_eq!(
        found(ProposalKind::PromptTemplate, &draft, &known[..2]),
        Some("near")
    );
    assert_eq!(
        found(ProposalKind::PromptTemplate, &draft, &known[..1]),
        None
    );
}

#[test]
fn a_different_workflow_or_tool_set_is_not_a_duplicate() {
    let draft = automation("a", "report-a", "0 9 * * *");
    let rows = [
        (
            "another time",
            automation("b", "report-a", "30 9 * * *"),
            Some("known"),
        ),
        (
            "another workflow",
            automation("b", "report-b", "0 9 * * *"),
            None,
        ),
    ];
    for (what, known, expected) in rows {
        assert_eq!(
            found(
                ProposalKind::Automation,
                &draft,
                &[("known", ProposalKind::Automation, known)]
            ),
            expected,
            "{what}"
        );
    }
    let pack = |tools: &[&str]| {
        let prompt = "You carry out one routine. Use the tools that you have in the order in which they are listed, and stop when one fails.";
        json!({"name": "p", "version": "1", "agents": [{"agentId": "local.a.b", "persona": "P", "modelClass": "general",
            "systemPrompt": prompt, "toolAllowlist": tools}]})
    };
    let known = [("known", ProposalKind::AgentPack, pack(&["search", "write"]))];
    assert_eq!(
        found(ProposalKind::AgentPack, &pack(&["search", "send"]), &known),
        None
    );
    let mut renamed = pack(&["search", "write"]);
    renamed["agents"][0]["agentId"] = json!("local.a.c");
    assert_eq!(
        found(ProposalKind::AgentPack, &renamed, &known),
        Some("known")
    );
}

#[test]
fn unreadable_artifacts_are_not_duplicates() {
    let draft = prompt("t", LONG);
    assert_eq!(
        duplicate_of(
            ProposalKind::PromptTemplate,
            &written(&draft),
            [("bad", ProposalKind::PromptTemplate, "not JSON")]
        ),
        None
    );
    assert_eq!(
        duplicate_of(
            ProposalKind::PromptTemplate,
            &written(&json!({})),
            [("bad", ProposalKind::PromptTemplate, "not JSON")]
        ),
        None
    );
}
