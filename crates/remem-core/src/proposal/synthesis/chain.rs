//! Repeated sequences: one principal starts the same workflows one after the other. Becomes one
//! workflow that starts them all.

use super::{
    ProposalDraft, RunTrace, SUPPORT_MIN, TracedRun, draft_name, newest_run_ids, saturating_u32,
};
use crate::proposal::ProposalKind;
use crate::proposal::automation::AutomationTarget;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The longest pause between the end of one run and the start of the next, in milliseconds.
const PAUSE_MS_MAX: i64 = 10 * 60_000;
/// The lengths of chains that are tried, longest first: a part of a chain needs no draft of its
/// own.
const LENGTHS: [usize; 3] = [4, 3, 2];

/// Drafts a workflow pack for each repeated sequence.
pub(super) fn drafts(runs: &[TracedRun<'_>]) -> Vec<ProposalDraft> {
    let mut principals: BTreeMap<&str, Vec<&TracedRun<'_>>> = BTreeMap::new();
    // A workflow can start workflows, but no agents.
    for run in runs
        .iter()
        .filter(|run| matches!(run.target, AutomationTarget::Workflow(_)))
    {
        principals
            .entry(&run.trace.principal)
            .or_default()
            .push(run);
    }
    principals
        .into_values()
        .flat_map(|runs| chains(&runs))
        .collect()
}

/// The chains of one principal. Every run is part of at most one chain.
fn chains(runs: &[&TracedRun<'_>]) -> Vec<ProposalDraft> {
    let follows: Vec<bool> = runs
        .windows(2)
        .map(|pair| follows(pair[0].trace, pair[1].trace))
        .collect();
    let mut used = vec![false; runs.len()];
    let mut drafts = Vec::new();
    for length in LENGTHS {
        let mut found: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
        for at in 0..(runs.len() + 1).saturating_sub(length) {
            let ids: Vec<&str> = runs[at..at + length]
                .iter()
                .map(|run| run.trace.workflow_id.as_str())
                .collect();
            let different = ids.iter().collect::<BTreeSet<_>>().len() == length;
            if different && follows[at..at + length - 1].iter().all(|follows| *follows) {
                found.entry(ids).or_default().push(at);
            }
        }
        let mut found: Vec<(Vec<&str>, Vec<usize>)> = found.into_iter().collect();
        // The most frequent first; of equally frequent ones, the one that began first: a chain that
        // repeats in a circle begins where the day began.
        found.sort_by_key(|(_, starts)| {
            (
                usize::MAX - unused_starts(starts, length, &used).len(),
                starts[0],
            )
        });
        for (ids, starts) in found {
            let starts = unused_starts(&starts, length, &used);
            if saturating_u32(starts.len()) < SUPPORT_MIN {
                continue;
            }
            starts
                .iter()
                .for_each(|at| used[*at..at + length].fill(true));
            drafts.push(draft(&ids, &starts, runs));
        }
    }
    drafts
}

fn follows(before: &RunTrace, after: &RunTrace) -> bool {
    let pause = after.started_at.0.checked_sub(before.completed_at.0);
    pause.is_some_and(|pause| (0..=PAUSE_MS_MAX).contains(&pause))
}

/// The starts of chains that do not overlap runs in other chains. They do not overlap one another
/// either: no workflow is in a chain twice.
fn unused_starts(starts: &[usize], length: usize, used: &[bool]) -> Vec<usize> {
    starts
        .iter()
        .copied()
        .filter(|at| !used[*at..at + length].contains(&true))
        .collect()
}

fn draft(ids: &[&str], starts: &[usize], runs: &[&TracedRun<'_>]) -> ProposalDraft {
    let nodes: Vec<Value> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| node(n, id, starts, runs))
        .collect();
    let edge = |n: usize| json!({"id": format!("e{n}"), "sourceNodeId": format!("step{n}"), "targetNodeId": format!("step{}", n + 1)});
    let edges: Vec<Value> = (1..ids.len()).map(edge).collect();
    let name = draft_name::name_with_hash(
        &format!("chain {}", ids.join(" ")),
        &json!([ids, nodes]).to_string(),
    );
    let title = format!("Run {} as one workflow", ids.join(", then "));
    let workflow = json!({
        "id": name, "name": title, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    let artifact = json!({"name": name, "version": "0.1.0", "workflows": [workflow]});
    ProposalDraft {
        kind: ProposalKind::WorkflowChainPack,
        title,
        rationale: format!(
            "The same principal started {} one after the other {} times, each within {} minutes after the one before had ended.",
            ids.join(", "),
            starts.len(),
            PAUSE_MS_MAX / 60_000
        ),
        artifact: artifact.as_object().cloned().unwrap_or_default(),
        source_runs: newest_run_ids(
            starts
                .iter()
                .flat_map(|at| &runs[*at..at + ids.len()])
                .map(|run| run.trace.run.as_str()),
        ),
        support: saturating_u32(starts.len()),
    }
}

/// One node of the chain. It gets the inputs that all runs had; if they varied, a person has to
/// fill them in.
fn node(n: usize, id: &str, starts: &[usize], runs: &[&TracedRun<'_>]) -> Value {
    let mut config = Map::from_iter([("workflowId".to_owned(), json!(id))]);
    let first = runs[starts[0] + n];
    if !first.trace.inputs.is_empty() && starts.iter().all(|at| runs[at + n].inputs == first.inputs)
    {
        config.insert(
            "inputs".to_owned(),
            Value::Object(first.trace.inputs.clone()),
        );
    }
    let step = n + 1;
    json!({
        "id": format!("step{step}"), "typeId": "core.subWorkflow", "name": format!("Step {step}"), "position": {"x": 200 * n, "y": 0},
        "config": config, "inputs": {},
    })
}
