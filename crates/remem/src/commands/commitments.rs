//! `remem commitment`: lists, shows, explains, creates and changes commitments, reports
//! observations and sets the rules by which promises are recognised.

use super::api;
use super::entries::after_now;
use crate::cli::{
    CommitmentCommand, CommitmentCreateArgs, CommitmentListArgs, CommitmentRulesArgs, Duration,
    GlobalArgs,
};
use crate::output::{self, escape_controls, preview};
use remem_core::Timestamp;
use remem_engine::ports::{Clock, SystemClock};
use remem_server::MemoryApi;
use remem_wire::Failure;
use remem_wire::commitment::{
    CommitmentCreate, CommitmentDoc, CommitmentList, CommitmentRulesDoc, CommitmentRulesPut,
    CommitmentSnooze, CommitmentWhy, CommitmentsQuery, DeliveryDoc, FireList, FiresQuery,
    Observation, ObservationAnswer,
};
use remem_wire::time::Instant;
use serde_json::json;
use std::sync::Arc;

pub async fn run(global: &GlobalArgs, command: &CommitmentCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        CommitmentCommand::List(list) => {
            let all = list.all || list.state.is_some();
            show_list(global, find_commitments(&api, list).await?, all)
        }
        CommitmentCommand::Show { id } => show(
            global,
            api.commitment(id).await?,
            api.commitment_fires(id, FiresQuery::default()).await?,
        ),
        CommitmentCommand::Explain { id } => explain(global, api.explain_commitment(id).await?),
        CommitmentCommand::Create(create) => create_commitment(global, &api, create).await,
        CommitmentCommand::Confirm { id } => {
            print_changed(global, api.confirm_commitment(id).await?)
        }
        CommitmentCommand::Cancel { id } => print_changed(global, api.cancel_commitment(id).await?),
        CommitmentCommand::Snooze { id, until, later } => {
            // The one or the other is there: the command line asks for it.
            let until = match (until, later) {
                (None, Some(later)) => after_now(*later, "--for")?,
                (until, _) => until.unwrap_or_else(|| Instant(SystemClock.now())),
            };
            print_changed(
                global,
                api.snooze_commitment(id, CommitmentSnooze { until })
                    .await?,
            )
        }
        CommitmentCommand::Observe {
            memory_ref,
            statement,
            not,
        } => print_observed(
            global,
            api.observe(
                memory_ref,
                Observation {
                    key: statement.join(" "),
                    value: !not,
                },
            )
            .await?,
        ),
        CommitmentCommand::Rules(rules) => self::rules(global, &api, rules).await,
    }
}

/// Reads pages until there are as many commitments as wanted. Without a state, only those that may
/// still fire are returned.
async fn find_commitments(
    api: &Arc<dyn MemoryApi>,
    list: &CommitmentListArgs,
) -> anyhow::Result<Vec<CommitmentDoc>> {
    let mut query = CommitmentsQuery {
        memory_ref: list.memory_ref.clone(),
        state: list.state.clone(),
        cursor: None,
        limit: Some(0),
    };
    let wanted = |commitment: &CommitmentDoc| {
        list.all || list.state.is_some() || matches!(commitment.state.as_str(), "pending" | "armed")
    };
    let mut found: Vec<CommitmentDoc> = Vec::new();
    loop {
        let page = api.commitments(query.clone()).await?;
        found.extend(page.commitments.into_iter().filter(wanted));
        query.cursor = page.next_cursor;
        let enough = list.limit > 0 && found.len() >= list.limit;
        if enough || query.cursor.is_none() {
            found.truncate(if list.limit > 0 {
                list.limit
            } else {
                found.len()
            });
            return Ok(found);
        }
    }
}

fn show_list(global: &GlobalArgs, found: Vec<CommitmentDoc>, all: bool) -> anyhow::Result<()> {
    if global.json {
        return output::json(&CommitmentList {
            commitments: found,
            next_cursor: None,
        });
    }
    let now = SystemClock.now();
    let row = |commitment: CommitmentDoc| {
        let due = due_text(&commitment, now);
        let text = preview(&marked_text(&commitment), 60);
        vec![
            preview(&commitment.id, 40),
            commitment.state,
            due,
            preview(&commitment.memory_ref, 40),
            text,
        ]
    };
    output::table(
        &["COMMITMENT", "STATE", "DUE", "MEMORY", "WHAT"],
        found.into_iter().map(row).collect(),
        if all {
            "No commitments"
        } else {
            "No open commitments (--all shows finished ones)"
        },
    );
    Ok(())
}

/// Renders when a commitment fires: the distance and the instant, or the statement that has to
/// become true.
fn due_text(commitment: &CommitmentDoc, now: Timestamp) -> String {
    match (
        &commitment.next_at,
        &commitment.predicate,
        &commitment.last_fired_at,
    ) {
        (Some(at), ..) => format!("{} ({at})", distance(at.0, now)),
        (None, Some(predicate), _) if matches!(commitment.state.as_str(), "pending" | "armed") => {
            format!("when {}", preview(predicate, 50))
        }
        (None, _, Some(at)) => format!("fired {} ({at})", distance(at.0, now)),
        (None, _, None) => "-".to_owned(),
    }
}

/// Renders a distance in time, such as `in 3 h` or `2 days ago`, in its two largest units at most.
fn distance(at: Timestamp, now: Timestamp) -> String {
    let ahead = at.0 >= now.0;
    let seconds = at.0.abs_diff(now.0) / 1_000;
    let days = seconds / 86_400;
    let hours = seconds / 3_600 % 24;
    let minutes = seconds / 60 % 60;
    let words = match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (1, hours, _) => format!("1 day {hours} h"),
        (days, ..) => format!("{days} days"),
    };
    if ahead {
        format!("in {words}")
    } else {
        format!("{words} ago")
    }
}

/// Prints a commitment, one property per line.
fn print_commitment(commitment: &CommitmentDoc) {
    println!("id        {}", escape_controls(&commitment.id));
    println!("state     {}", commitment.state);
    println!(
        "due       {}",
        escape_controls(&due_text(commitment, SystemClock.now()))
    );
    if let Some(rule) = commitment.every.as_ref().or(commitment.cron.as_ref()) {
        println!(
            "repeats   {} ({})",
            escape_controls(rule),
            escape_controls(commitment.zone.as_deref().unwrap_or_default())
        );
    }
    println!("memory    {}", escape_controls(&commitment.memory_ref));
    if let Some(entry) = &commitment.memory_id {
        println!("entry     {}", escape_controls(entry));
    }
    if let Some(starts) = commitment
        .delivery
        .workflow_id
        .as_ref()
        .or(commitment.delivery.agent_id.as_ref())
    {
        println!("starts    {}", escape_controls(starts));
    }
    if let Some(by) = &commitment.ended_by {
        println!("ended by  {by}");
    }
    println!("created   {}", commitment.created_at);
    println!("what      {}", escape_controls(&marked_text(commitment)));
}

/// Renders the text of a commitment on one line, marked if it was read from an untrusted text.
fn marked_text(commitment: &CommitmentDoc) -> String {
    let text = commitment.text.as_deref().unwrap_or("-");
    if commitment.untrusted {
        format!("[untrusted] {text}")
    } else {
        text.to_owned()
    }
}

fn show(global: &GlobalArgs, commitment: CommitmentDoc, fires: FireList) -> anyhow::Result<()> {
    if global.json {
        return output::json(&json!({"commitment": commitment, "fires": fires.fires}));
    }
    print_commitment(&commitment);
    let dash = || "-".to_owned();
    let row = |fire: remem_wire::commitment::FireDoc| {
        vec![
            fire.scheduled_at.to_string(),
            fire.fired_at.to_string(),
            fire.run_id.unwrap_or_else(dash),
        ]
    };
    output::table(
        &["DUE", "FIRED", "RUN"],
        fires.fires.into_iter().map(row).collect(),
        "It has not fired yet",
    );
    Ok(())
}

fn explain(global: &GlobalArgs, why: CommitmentWhy) -> anyhow::Result<()> {
    if global.json {
        return output::json(&why);
    }
    print_commitment(&why.commitment);
    match (&why.rules, &why.cue, &why.condition_words) {
        (Some(rules), Some(cue), Some(words)) => {
            println!(
                "read as   \"{}\" asks or promises, \"{}\" says when",
                escape_controls(cue),
                escape_controls(words)
            );
            println!(
                "by rules  {}, confidence {}",
                escape_controls(rules),
                why.commitment.confidence
            );
        }
        (Some(rules), ..) => println!(
            "by rules  {}; the text has been erased",
            escape_controls(rules)
        ),
        (None, ..) => println!("created   with an explicit time or condition"),
    }
    Ok(())
}

fn delivery(workflow: Option<&String>, agent: Option<&String>) -> DeliveryDoc {
    DeliveryDoc {
        workflow_id: workflow.cloned(),
        agent_id: agent.cloned(),
        ..DeliveryDoc::default()
    }
}

async fn create_commitment(
    global: &GlobalArgs,
    api: &Arc<dyn MemoryApi>,
    create: &CommitmentCreateArgs,
) -> anyhow::Result<()> {
    let new = CommitmentCreate {
        text: create.text.join(" "),
        at: create.at,
        every: create.every.map(Duration::iso),
        cron: create.cron.clone(),
        predicate: create.predicate.clone(),
        zone: create.zone.clone(),
        delivery: delivery(create.workflow.as_ref(), create.agent.as_ref()),
        subjects: create.subjects.clone(),
    };
    let created = api
        .create_commitment(&create.memory_ref, new, create.idempotency_key.as_deref())
        .await
        .map_err(no_time)?;
    if global.json {
        return output::json(&created.commitment);
    }
    let again = if created.replayed { ", as before" } else { "" };
    println!(
        "{}  {}: {}{again}",
        escape_controls(&created.commitment.id),
        created.commitment.state,
        due_text(&created.commitment, SystemClock.now())
    );
    Ok(())
}

/// The server names the fields of its API; here they are options.
fn no_time(mut failure: Failure) -> Failure {
    if failure.body.message.contains("no time in it") {
        let text = "No time found in the text; use --at, --every, --cron or --predicate";
        text.clone_into(&mut failure.body.message);
        failure.body.details = None;
    }
    failure
}

fn print_changed(global: &GlobalArgs, commitment: CommitmentDoc) -> anyhow::Result<()> {
    if global.json {
        return output::json(&commitment);
    }
    println!(
        "{}: {}, {}",
        escape_controls(&commitment.id),
        commitment.state,
        due_text(&commitment, SystemClock.now())
    );
    Ok(())
}

fn print_observed(global: &GlobalArgs, answer: ObservationAnswer) -> anyhow::Result<()> {
    if global.json {
        return output::json(&answer);
    }
    println!(
        "{}: {} waiting, {} fired",
        escape_controls(&answer.key),
        answer.matched,
        answer.fired.len()
    );
    answer
        .fired
        .iter()
        .for_each(|id| println!("{}", escape_controls(id)));
    Ok(())
}

/// Shows the rules, after setting those that the command line names. The others stay as they are.
async fn rules(
    global: &GlobalArgs,
    api: &Arc<dyn MemoryApi>,
    wanted: &CommitmentRulesArgs,
) -> anyhow::Result<()> {
    let memory_ref = wanted.memory_ref.as_deref();
    let mut rules: CommitmentRulesDoc = api.commitment_rules(memory_ref).await?;
    let starts = wanted.workflow.is_some() || wanted.agent.is_some() || wanted.tell_only;
    if starts || wanted.arm.is_some() || wanted.zone.is_some() {
        let delivery = if starts {
            delivery(wanted.workflow.as_ref(), wanted.agent.as_ref())
        } else {
            rules.delivery
        };
        let arm = wanted.arm.clone().unwrap_or(rules.arm);
        let zone = wanted.zone.clone().unwrap_or(rules.zone);
        rules = api
            .put_commitment_rules(
                memory_ref,
                CommitmentRulesPut {
                    arm: Some(arm),
                    zone: Some(zone),
                    delivery,
                },
            )
            .await?;
    }
    if global.json {
        return output::json(&rules);
    }
    println!(
        "memory  {}",
        rules.memory_ref.as_deref().map_or_else(
            || "(all without rules of their own)".to_owned(),
            escape_controls
        )
    );
    println!("arm     {}", rules.arm);
    println!("zone    {}", escape_controls(&rules.zone));
    let starts = rules.delivery.workflow_id.or(rules.delivery.agent_id);
    println!(
        "starts  {}",
        starts
            .as_deref()
            .map_or_else(|| "nothing; an event is sent".to_owned(), escape_controls)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_distances_are_formatted_in_words() {
        let now = Timestamp(1_000_000_000);
        for (seconds, words) in [
            (0, "in 0 s"),
            (59, "in 59 s"),
            (-61, "1 min ago"),
            (7_500, "in 2 h 5 min"),
            (90_000, "in 1 day 1 h"),
            (-200_000, "2 days ago"),
        ] {
            assert_eq!(distance(now.plus_ms(seconds * 1_000), now), words);
        }
    }
}
