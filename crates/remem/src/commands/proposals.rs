//! `remem proposal`: lists, shows, submits and revises proposals, and decides about them.

use super::api;
use crate::cli::{GlobalArgs, ProposalCommand};
use crate::hints;
use crate::output;
use anyhow::Context;
use remem_server::{DecisionOutcome, MemoryApi};
use remem_wire::proposal::{
    Proposal, ProposalDecision, ProposalGate, ProposalOverride, ProposalPatch, ProposalRevision,
    ProposalSubmit, ProposalsQuery,
};
use serde_json::{Map, Value};
use std::path::Path;

pub async fn run(global: &GlobalArgs, command: &ProposalCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        ProposalCommand::List { state, kind, limit } => {
            let query = ProposalsQuery {
                state: state.clone(),
                kind: kind.clone(),
                limit: Some(*limit),
                cursor: None,
            };
            list(global, api.as_ref(), query).await
        }
        ProposalCommand::Show { id } => show(global, api.as_ref(), id).await,
        ProposalCommand::Submit {
            file,
            kind,
            title,
            rationale,
        } => {
            let kind = kind.clone();
            let title = title.clone();
            let rationale = rationale.clone();
            let request = ProposalSubmit {
                kind,
                title,
                rationale,
                artifact: read_object(file)?,
                source_run_ids: Vec::new(),
            };
            print_result(
                global,
                "submitted",
                &api.submit_proposal(request, None).await?.0,
            )
        }
        ProposalCommand::Revise {
            id,
            file,
            title,
            rationale,
            digest,
        } => {
            let artifact = file.as_deref().map(read_object).transpose()?;
            let patch = ProposalPatch {
                title: title.clone(),
                rationale: rationale.clone(),
                artifact,
                artifact_digest: digest.clone(),
            };
            print_result(global, "revised", &api.revise_proposal(id, patch).await?)
        }
        ProposalCommand::Apply(decide) => {
            let decision = ProposalDecision {
                artifact_digest: decide.digest.clone(),
            };
            print_decision(global, &api.apply_proposal(&decide.id, decision).await?)
        }
        ProposalCommand::Approve(decide) => {
            let decision = ProposalDecision {
                artifact_digest: decide.digest.clone(),
            };
            print_decision(global, &api.approve_proposal(&decide.id, decision).await?)
        }
        ProposalCommand::Override {
            id,
            reason,
            note,
            digest,
        } => {
            let request = ProposalOverride {
                reason: reason.clone(),
                note: note.clone(),
                artifact_digest: digest.clone(),
            };
            print_decision(global, &api.override_proposal(id, request).await?)
        }
        ProposalCommand::Reject { id } => {
            print_result(global, "rejected", &api.reject_proposal(id).await?)
        }
        ProposalCommand::Archive { id } => {
            print_result(global, "archived", &api.archive_proposal(id).await?)
        }
        ProposalCommand::Installed => installed(global, api.as_ref()).await,
    }
}

/// Reads a JSON object from a file.
pub(super) fn read_object(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(hints::without_bom(&text)).map_err(|e| {
        anyhow::anyhow!(
            "{} is not a JSON object: {}",
            file.display(),
            hints::json(&e)
        )
    })
}

fn print_result(global: &GlobalArgs, what: &str, proposal: &Proposal) -> anyhow::Result<()> {
    if global.json {
        return output::json(proposal);
    }
    println!("{what} {}", proposal.id);
    if let Some(other) = &proposal.duplicate_of {
        eprintln!("it duplicates {other}");
    }
    Ok(())
}

fn print_decision(global: &GlobalArgs, decision: &DecisionOutcome) -> anyhow::Result<()> {
    if global.json {
        return output::json(&decision.proposal);
    }
    match &decision.proposal.activation {
        Some(activation) => println!("installed {}", activation.installed_artifact_ref),
        None => println!(
            "{} waits for approvals; `remem proposal show` says how many",
            decision.proposal.id
        ),
    }
    Ok(())
}

async fn list(
    global: &GlobalArgs,
    api: &dyn MemoryApi,
    query: ProposalsQuery,
) -> anyhow::Result<()> {
    let list = api.proposals(query).await?;
    if global.json {
        return output::json(&list);
    }
    let rows = list.proposals.iter().map(|p| {
        let title = output::preview(p.title.as_deref().unwrap_or_default(), 70);
        vec![
            p.id.clone(),
            p.kind.clone(),
            p.state.clone(),
            p.created_at.to_string(),
            title,
        ]
    });
    output::table(
        &["ID", "KIND", "STATE", "CREATED", "TITLE"],
        rows.collect(),
        "no proposals",
    );
    if list.next_cursor.is_some() {
        eprintln!("more proposals exist; raise --limit");
    }
    Ok(())
}

async fn show(global: &GlobalArgs, api: &dyn MemoryApi, id: &str) -> anyhow::Result<()> {
    let proposal = api.proposal(id).await?;
    if global.json {
        return output::json(&proposal);
    }
    let revisions = api.proposal_revisions(id).await?.revisions;
    let gate = match api.proposal_gate(id).await {
        Ok(gate) => Some(gate),
        Err(failure) if failure.status == 404 => None,
        Err(failure) => return Err(failure.into()),
    };
    print_proposal(&proposal, revisions.last(), gate.as_ref());
    Ok(())
}

fn print_proposal(
    proposal: &Proposal,
    newest: Option<&ProposalRevision>,
    gate: Option<&ProposalGate>,
) {
    let gate = gate.map(|gate| {
        format!(
            "{}, {} of {} approvals, until {}",
            gate.state,
            gate.approvals.len(),
            gate.required,
            gate.due_at
        )
    });
    let owner = proposal
        .owner
        .principal
        .clone()
        .unwrap_or_else(|| "the host".to_owned());
    let rows = [
        ("proposal", proposal.id.clone()),
        ("kind", proposal.kind.clone()),
        ("state", proposal.state.clone()),
        ("title", proposal.title.clone().unwrap_or_default()),
        ("rationale", proposal.rationale.clone().unwrap_or_default()),
        ("made by", owner),
        ("of runs", proposal.provenance.source_run_ids.join(", ")),
        ("repeats", proposal.duplicate_of.clone().unwrap_or_default()),
        (
            "revision",
            newest
                .map(|revision| revision.number.to_string())
                .unwrap_or_default(),
        ),
        (
            "digest",
            newest
                .map(|revision| revision.artifact_digest.clone())
                .unwrap_or_default(),
        ),
        ("gate", gate.unwrap_or_default()),
        (
            "installed",
            proposal
                .activation
                .as_ref()
                .map(|activation| activation.installed_artifact_ref.clone())
                .unwrap_or_default(),
        ),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        println!("{name:<12}{}", output::preview(value, 600));
    }
    println!(
        "\n{}",
        output::escape_controls(
            &serde_json::to_string_pretty(&proposal.artifact).unwrap_or_default()
        )
    );
}

async fn installed(global: &GlobalArgs, api: &dyn MemoryApi) -> anyhow::Result<()> {
    let list = api.installed_artifacts().await?;
    if global.json {
        return output::json(&list);
    }
    let rows = list.installed.iter().map(|artifact| {
        let from = format!("{} revision {}", artifact.proposal_id, artifact.revision);
        vec![
            artifact.reference.clone(),
            from,
            artifact.installed_at.to_string(),
            artifact.artifact_digest.clone(),
        ]
    });
    output::table(
        &["REF", "FROM", "INSTALLED", "DIGEST"],
        rows.collect(),
        "No installed proposals",
    );
    Ok(())
}
