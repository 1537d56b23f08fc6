//! Where entries come from: lineage, and the archives of distillations.

use super::door;
use crate::cli::{Archive, Global, OneEntry};
use crate::output::{self, preview};
use std::io::Write;

pub async fn run(global: &Global, one: &OneEntry) -> anyhow::Result<()> {
    let lineage = door(global)
        .await?
        .lineage(&one.memory_ref, &one.id)
        .await?;
    if global.json {
        return output::json(&lineage);
    }
    println!("id           {}", preview(&lineage.id, 100));
    println!("state        {}", lineage.state);
    println!("support      {}", lineage.support);
    if let Some(by) = &lineage.replaced_by {
        println!("replaced by  {}", preview(by, 100));
    }
    println!();
    let sources = lineage.sources.into_iter().map(|one| ("made from", one));
    let all = sources.chain(
        lineage
            .derivatives
            .into_iter()
            .map(|one| ("made into", one)),
    );
    let rows = all.map(|(what, one)| {
        vec![
            what.to_owned(),
            preview(&one.memory_ref, 60),
            preview(&one.id, 100),
            one.state,
        ]
    });
    output::table(
        &["STEP", "MEMORY", "ID", "STATE"],
        rows.collect(),
        "Made from no other entry, and no entry was made from it",
    );
    Ok(())
}

pub async fn archive(global: &Global, command: &Archive) -> anyhow::Result<()> {
    let door = door(global).await?;
    match command {
        Archive::List { memory_ref } => {
            let list = door.archives(memory_ref).await?.archives;
            if global.json {
                return list.iter().try_for_each(output::json);
            }
            let rows = list.into_iter().map(|one| {
                let state = if one.erased { "erased" } else { "kept" };
                let topics = preview(&one.topics.join(", "), 48);
                vec![
                    one.sha256,
                    one.created_at.to_string(),
                    one.source_count.to_string(),
                    state.to_owned(),
                    topics,
                ]
            });
            output::table(
                &["SHA256", "CREATED", "SOURCES", "STATE", "TOPICS"],
                rows.collect(),
                "no archives",
            );
        }
        Archive::Get { memory_ref, sha256 } => {
            // Nothing before, nothing after: the bytes are what the digest names.
            std::io::stdout().write_all(door.archive(memory_ref, sha256).await?.as_bytes())?;
        }
    }
    Ok(())
}
