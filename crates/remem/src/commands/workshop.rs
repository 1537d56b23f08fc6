//! `remem history`, `retract`, `session`, `link`, `audit`, `retention` and `profile`.

use super::api;
use crate::cli::{
    EntryArgs, GlobalArgs, LinkArgs, ProfileCommand, RetentionCommand, SessionCommand, SlotArgs,
};
use crate::output::{self, preview};
use remem_wire::reader;
use remem_wire::time::Instant;
use remem_wire::workshop::{EntryFacets, LinkPut, RetentionQuery, SessionDoc, SlotQuery};
use serde_json::json;

/// Renders the validity window of an entry.
pub fn validity(facets: &EntryFacets) -> String {
    let show = |at: Option<Instant>| at.map_or_else(String::new, |at| at.to_string());
    match (facets.valid_from, facets.valid_to) {
        (None, None) => "-".to_owned(),
        (from, to) => format!("{}..{}", show(from), show(to)),
    }
}

pub async fn history(global: &GlobalArgs, question: &SlotArgs) -> anyhow::Result<()> {
    let query = SlotQuery {
        session: question.session.clone(),
    };
    let history = api(global)
        .await?
        .history(&question.memory_ref, &question.slot, query)
        .await?;
    if global.json {
        return output::json(&history);
    }
    let rows = history.answers.iter().map(|answer| {
        let replaced = answer.replaced_by.as_deref().unwrap_or("-");
        vec![
            preview(&answer.entry.id, 40),
            validity(&answer.facets),
            answer.state.clone(),
            preview(replaced, 40),
            preview(&reader::line(&answer.entry), 72),
        ]
    });
    output::table(
        &["ID", "VALID", "STATE", "REPLACED BY", "CONTENT"],
        rows.collect(),
        "no answers",
    );
    Ok(())
}

pub async fn retract(global: &GlobalArgs, question: &SlotArgs) -> anyhow::Result<()> {
    let query = SlotQuery {
        session: question.session.clone(),
    };
    let written = api(global)
        .await?
        .retract(&question.memory_ref, &question.slot, query)
        .await?;
    if global.json {
        return output::json(&json!({"retracted": true, "revision": written.revision}));
    }
    println!("retracted  (revision {})", written.revision);
    Ok(())
}

pub async fn session(global: &GlobalArgs, command: &SessionCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        SessionCommand::List { memory_ref } => {
            let list = api.sessions(memory_ref).await?;
            if global.json {
                return output::json(&list);
            }
            output::table(
                &SESSION,
                list.sessions.iter().map(row).collect(),
                "no sessions",
            );
        }
        SessionCommand::Close { memory_ref } => {
            let closed = api.close_session(memory_ref).await?;
            if global.json {
                return output::json(&closed);
            }
            println!(
                "{} is {}: {} promoted, {} ended, {} kept",
                closed.session_id, closed.state, closed.promoted, closed.ended, closed.kept
            );
        }
        SessionCommand::EndThread { memory_ref, thread } => {
            let closed = api.close_interaction(memory_ref, thread).await?;
            if global.json {
                return output::json(&closed);
            }
            println!(
                "{} moved to the session, {} ended, {} kept",
                closed.promoted, closed.ended, closed.kept
            );
        }
    }
    Ok(())
}

const SESSION: [&str; 6] = ["SESSION", "STATE", "OPENED", "PROMOTED", "ENDED", "KEPT"];

fn row(session: &SessionDoc) -> Vec<String> {
    let counts = [session.promoted, session.ended, session.kept].map(|count| count.to_string());
    [
        vec![
            preview(&session.session_id, 60),
            session.state.clone(),
            session.opened_at.to_string(),
        ],
        counts.to_vec(),
    ]
    .concat()
}

pub async fn link(global: &GlobalArgs, link: &LinkArgs) -> anyhow::Result<()> {
    let put = LinkPut {
        action: link.action.clone(),
        reference: link.reference.clone(),
    };
    let linked = api(global)
        .await?
        .link_action(&link.memory_ref, &link.id, put)
        .await?
        .value;
    if global.json {
        return output::json(&linked);
    }
    println!("linked {}  (revision {})", linked.linked, linked.revision);
    Ok(())
}

pub async fn audit(global: &GlobalArgs, target: &EntryArgs) -> anyhow::Result<()> {
    let audit = api(global)
        .await?
        .audit(&target.memory_ref, &target.id)
        .await?;
    if global.json {
        return output::json(&audit);
    }
    println!("id           {}", preview(&audit.id, 100));
    println!("state        {}", audit.state);
    if let Some(by) = &audit.replaced_by {
        println!("replaced by  {}", preview(by, 100));
    }
    println!();
    let sources = audit.sources.iter().map(|relative| ("made from", relative));
    let relatives = sources.chain(
        audit
            .derivatives
            .iter()
            .map(|relative| ("made into", relative)),
    );
    let mut rows: Vec<Vec<String>> = relatives
        .map(|(what, relative)| {
            vec![
                what.to_owned(),
                preview(&relative.id, 60),
                relative.state.clone(),
                String::new(),
            ]
        })
        .collect();
    rows.extend(audit.links.iter().map(|link| {
        let by = link.by.as_deref().unwrap_or("the host");
        let when = format!("{} by {}", link.at, preview(by, 40));
        vec![
            "rests on it".to_owned(),
            preview(&link.action, 60),
            preview(&link.reference, 60),
            when,
        ]
    }));
    output::table(
        &["STEP", "WHAT", "STATE OR REFERENCE", "WHEN"],
        rows,
        "Made from no other entry, and no action rests on it",
    );
    Ok(())
}

pub async fn retention(global: &GlobalArgs, command: &RetentionCommand) -> anyhow::Result<()> {
    let RetentionCommand::Status { memory_ref } = command;
    let status = api(global)
        .await?
        .retention(RetentionQuery {
            memory_ref: memory_ref.clone(),
        })
        .await?;
    if global.json {
        return output::json(&status);
    }
    let rows = status.counts.iter().map(|row| {
        vec![
            row.tier.as_str().to_owned(),
            row.typology.as_str().to_owned(),
            row.state.clone(),
            row.entries.to_string(),
        ]
    });
    output::table(
        &["TIER", "KIND", "STATE", "ENTRIES"],
        rows.collect(),
        "No entries",
    );
    Ok(())
}

pub async fn profile(global: &GlobalArgs, command: &ProfileCommand) -> anyhow::Result<()> {
    let ProfileCommand::List = command;
    let list = api(global).await?.profiles().await?;
    if global.json {
        return output::json(&list);
    }
    let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let rows = list.profiles.iter().map(|profile| {
        vec![
            preview(&profile.name, 40),
            preview(&profile.patterns.join(", "), 60),
            yes(profile.classifies),
            yes(profile.non_mirror),
            preview(profile.world.as_deref().unwrap_or("-"), 40),
            profile.guard.clone(),
            format!("{}d", profile.session_idle_days),
            profile.promotion_units.to_string(),
            format!("{}d", profile.strip_after_days),
        ]
    });
    let heading = [
        "PROFILE",
        "MEMORIES",
        "CLASSIFIES",
        "NON-MIRROR",
        "WORLD",
        "GUARD",
        "SESSION IDLE",
        "PROMOTION",
        "STRIP AFTER",
    ];
    output::table(&heading, rows.collect(), "no profiles");
    Ok(())
}
