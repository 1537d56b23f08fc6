//! From traces to drafts: work that was repeated by hand becomes a proposal to automate it.
//! Deterministic, and independent of the order in which traces are given. Nothing here applies a
//! draft.
//!
//! * `clock`: the same thing at the same time of day becomes an automation.
//! * `chain`: workflows that follow one another become one workflow.
//! * `wording`: a text that differs in a few words becomes a prompt template.
//! * `tools`: tools that are used in the same order become an agent with these tools and no others.
//! * `draft_name`: the names of drafts.
//!
//! A title and a rationale hold counts and the names of workflows and agents, never a word that a
//! caller wrote, because they are shown in lists and logs. The artifact may hold such words, since
//! it is what a person reviews.

mod chain;
mod clock;
mod draft_name;
mod tools;
mod wording;

use super::ProposalKind;
use super::artifact::{Artifact, canonical, check};
use super::automation::AutomationTarget;
use crate::agent::is_agent_id;
use crate::ids::Timestamp;
use crate::policy::Policy;
use crate::workflow::is_workflow_id;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The name of the engine that made a draft: another engine may draft differently from the same
/// traces.
pub const ENGINE: &str = "remem-propose-1";
/// The least number of repetitions that make a routine.
pub const SUPPORT_MIN: u32 = 5;
/// The most drafts of one call; those with the most support are kept.
pub const DRAFTS_MAX: usize = 20;
/// The most traces that are examined; the newest are taken.
pub const TRACES_MAX: usize = 10_000;
/// The most runs that a draft lists as its source; the newest are taken.
pub const SOURCES_MAX: usize = 50;

/// A run that completed. Runs that another run started must not be given: their caller did the
/// whole work at once.
#[derive(Clone, PartialEq)]
pub struct RunTrace {
    pub run: String,
    /// The workflow that was executed.
    pub workflow_id: String,
    /// The agent, if an agent was invoked; the workflow is then the host's own.
    pub agent_id: Option<String>,
    /// The principal that started it.
    pub principal: String,
    pub started_at: Timestamp,
    pub completed_at: Timestamp,
    /// The inputs of the run.
    pub inputs: Map<String, Value>,
}

/// The tools that an agent used for one task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolTrace {
    pub id: String,
    pub agent_id: String,
    /// The run that used them, if it was a run.
    pub run: Option<String>,
    pub at: Timestamp,
    /// The names of the tools, in the order in which they were called.
    pub tools: Vec<String>,
    /// The task that the agent was given. No draft is made from it.
    pub task: Option<String>,
}

/// The input of the synthesis.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    pub runs: Vec<RunTrace>,
    /// The recorded uses of tools.
    pub tools: Vec<ToolTrace>,
}

/// A proposal that was drafted from traces.
#[derive(Clone, PartialEq)]
pub struct ProposalDraft {
    pub kind: ProposalKind,
    /// A line for people to read.
    pub title: String,
    /// The reason for the draft: counts, and names of workflows and agents.
    pub rationale: String,
    /// The object that it would install; it passes the rules of its kind.
    pub artifact: Map<String, Value>,
    /// The runs that it was made from, sorted.
    pub source_runs: Vec<String>,
    /// The number of repetitions.
    pub support: u32,
}

// Inputs, tasks and artifacts are texts of callers, so they are not printed.
impl std::fmt::Debug for RunTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunTrace")
            .field("run", &self.run)
            .field("started_at", &self.started_at)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ToolTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolTrace")
            .field("id", &self.id)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ProposalDraft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Synthesised")
            .field("kind", &self.kind)
            .field("title", &self.title)
            .field("support", &self.support)
            .finish_non_exhaustive()
    }
}

/// Drafts proposals from traces, those with the most support first. Times of day are read in the
/// time zone `zone`.
#[must_use]
pub fn draft_proposals(traces: &Traces, zone: &str, policy: &Policy) -> Vec<ProposalDraft> {
    let (runs, tools) = newest(traces);
    let runs: Vec<TracedRun<'_>> = runs.into_iter().filter_map(TracedRun::of).collect();
    let mut drafts = clock::drafts(&runs, zone);
    drafts.extend(chain::drafts(&runs));
    drafts.extend(wording::drafts(&runs));
    drafts.extend(tools::drafts(&tools));
    // A draft that fails the checks (for example because of too large inputs) is dropped.
    let written = |draft: ProposalDraft| {
        let text = Artifact::new(&draft.artifact)
            .ok()
            .filter(|_| check(draft.kind, &draft.artifact, policy).is_ok())?
            .text()
            .to_owned();
        Some((draft, text))
    };
    let mut drafts: Vec<(ProposalDraft, String)> = drafts.into_iter().filter_map(written).collect();
    drafts.sort_by(|(a, a_text), (b, b_text)| {
        let by_support = b
            .support
            .cmp(&a.support)
            .then(a.kind.cmp(&b.kind))
            .then_with(|| a_text.cmp(b_text));
        by_support.then_with(|| a.source_runs.cmp(&b.source_runs))
    });
    // Two people with the same habit give the same artifact; one draft is enough.
    let mut known = BTreeSet::new();
    drafts.retain(|(draft, text)| known.insert((draft.kind, text.clone())));
    drafts.truncate(DRAFTS_MAX);
    drafts.into_iter().map(|(draft, _)| draft).collect()
}

/// The newest traces, oldest first, each id once. All fields of a trace take part in the order, so
/// that the result does not depend on the order of the input.
fn newest(traces: &Traces) -> (Vec<&RunTrace>, Vec<&ToolTrace>) {
    let mut runs: Vec<&RunTrace> = traces.runs.iter().collect();
    let mut tools: Vec<&ToolTrace> = traces.tools.iter().collect();
    runs.sort_by(|a, b| a.run.cmp(&b.run).then_with(|| by_time(b, a)));
    runs.dedup_by(|a, b| a.run == b.run);
    tools.sort_by(|a, b| a.id.cmp(&b.id).then_with(|| (b.at, b).cmp(&(a.at, a))));
    tools.dedup_by(|a, b| a.id == b.id);
    let mut times: Vec<Timestamp> = runs
        .iter()
        .map(|run| run.started_at)
        .chain(tools.iter().map(|tool| tool.at))
        .collect();
    times.sort_unstable();
    runs.sort_by(|a, b| by_time(a, b));
    tools.sort_by(|a, b| (a.at, a).cmp(&(b.at, b)));
    if let Some(over) = times.len().checked_sub(TRACES_MAX).filter(|over| *over > 0) {
        // Traces at the instant of the cut all go: which of them stays must not depend on chance.
        let first = times[over];
        let cut = if times[over - 1] == first {
            first.plus_ms(1)
        } else {
            first
        };
        runs.retain(|run| run.started_at >= cut);
        tools.retain(|tool| tool.at >= cut);
    }
    (runs, tools)
}

fn by_time(a: &RunTrace, b: &RunTrace) -> Ordering {
    let times = (a.started_at, a.completed_at).cmp(&(b.started_at, b.completed_at));
    let names = (&a.run, &a.workflow_id, &a.agent_id, &a.principal).cmp(&(
        &b.run,
        &b.workflow_id,
        &b.agent_id,
        &b.principal,
    ));
    times
        .then(names)
        .then_with(|| canonical(&a.inputs).cmp(&canonical(&b.inputs)))
}

/// A run whose workflow or agent has a well-formed id.
struct TracedRun<'a> {
    trace: &'a RunTrace,
    target: AutomationTarget,
    /// The inputs as canonical JSON.
    inputs: String,
}

impl<'a> TracedRun<'a> {
    fn of(trace: &'a RunTrace) -> Option<TracedRun<'a>> {
        let target = match &trace.agent_id {
            Some(agent) => AutomationTarget::Agent(agent.clone()),
            None => AutomationTarget::Workflow(trace.workflow_id.clone()),
        };
        let is_well_formed = match &target {
            AutomationTarget::Agent(id) => is_agent_id(id),
            AutomationTarget::Workflow(id) => is_workflow_id(id),
        };
        is_well_formed.then(|| TracedRun {
            trace,
            target,
            inputs: canonical(&trace.inputs),
        })
    }
}

fn saturating_u32(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// The newest runs, sorted by name. The runs must be given oldest first.
fn newest_run_ids<'a>(runs: impl DoubleEndedIterator<Item = &'a str>) -> Vec<String> {
    let newest: BTreeSet<&str> = runs.rev().take(SOURCES_MAX).collect();
    newest.into_iter().map(str::to_owned).collect()
}
