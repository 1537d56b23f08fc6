//! Repeated tool use: an agent calls the same tools in the same order. Becomes an agent that has
//! these tools and no others.

use super::{ProposalDraft, SUPPORT_MIN, ToolTrace, draft_name, newest_run_ids, saturating_u32};
use crate::agent::is_agent_id;
use crate::proposal::ProposalKind;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The most calls of one routine: longer ones do not repeat.
const CALLS_MAX: usize = 32;
const TOOL_CHARS_MAX: usize = 128;

/// Drafts an agent pack for each repeated tool sequence.
pub(super) fn drafts(traces: &[&ToolTrace]) -> Vec<ProposalDraft> {
    let mut groups: BTreeMap<(&str, &[String]), Vec<&ToolTrace>> = BTreeMap::new();
    for trace in traces.iter().filter(|trace| is_routine(&trace.tools)) {
        groups
            .entry((&trace.agent_id, &trace.tools))
            .or_default()
            .push(trace);
    }
    let often = groups
        .into_iter()
        .filter(|(_, traces)| saturating_u32(traces.len()) >= SUPPORT_MIN);
    often
        .map(|((agent, tools), traces)| draft(agent, tools, &traces))
        .collect()
}

/// Returns true for at least two different tools with plain names. The names go into a prompt, so a
/// name must not be able to carry other text.
fn is_routine(tools: &[String]) -> bool {
    let proper = |tool: &String| {
        (1..=TOOL_CHARS_MAX).contains(&tool.len())
            && tool
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.:/-".contains(&b))
    };
    (2..=CALLS_MAX).contains(&tools.len())
        && tools.iter().any(|tool| *tool != tools[0])
        && tools.iter().all(proper)
}

fn draft(agent: &str, tools: &[String], traces: &[&ToolTrace]) -> ProposalDraft {
    let mut known = BTreeSet::new();
    let different: Vec<&String> = tools.iter().filter(|tool| known.insert(*tool)).collect();
    // A text that is not an agent id was written by a caller, so it is not shown.
    let who = if is_agent_id(agent) {
        format!("agent {agent}")
    } else {
        "an agent".to_owned()
    };
    let name = draft_name::name_with_hash(
        if is_agent_id(agent) { agent } else { "" },
        &json!([agent, tools]).to_string(),
    );
    let steps: Vec<String> = tools
        .iter()
        .enumerate()
        .map(|(n, tool)| format!("{}. {tool}", n + 1))
        .collect();
    let prompt = format!(
        "You carry out one routine. Use these tools, in this order, and no others:\n{}\nIf a tool fails, stop and say which one.",
        steps.join("\n")
    );
    let manifest = json!({
        "agentId": format!("local.routine.{name}"), "persona": "Routine of tools", "modelClass": "general", "systemPrompt": prompt,
        "toolAllowlist": different,
    });
    let artifact =
        json!({"name": format!("routine-{name}"), "version": "0.1.0", "agents": [manifest]});
    ProposalDraft {
        kind: ProposalKind::AgentPack,
        title: format!(
            "An agent for a routine of {} tools of {who}",
            different.len()
        ),
        rationale: format!(
            "The same {} calls of {} tools were made by {who} in the same order {} times.",
            tools.len(),
            different.len(),
            traces.len()
        ),
        artifact: artifact.as_object().cloned().unwrap_or_default(),
        source_runs: newest_run_ids(traces.iter().filter_map(|trace| trace.run.as_deref())),
        support: saturating_u32(traces.len()),
    }
}
