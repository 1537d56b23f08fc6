//! `remem lineage` and `remem archive`: the sources and derivatives of an entry, and the archives
//! of distillations.

use super::api;
use crate::cli::{ArchiveCommand, EntryArgs, GlobalArgs};
use crate::output::{self, preview};
use std::io::Write;

pub async fn run(global: &GlobalArgs, target: &EntryArgs) -> anyhow::Result<()> {
    let lineage = api(global)
        .await?
        .lineage(&target.memory_ref, &target.id)
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
    let sources = lineage
        .sources
        .into_iter()
        .map(|relative| ("made from", relative));
    let all = sources.chain(
        lineage
            .derivatives
            .into_iter()
            .map(|relative| ("made into", relative)),
    );
    let rows = all.map(|(what, relative)| {
        vec![
            what.to_owned(),
            preview(&relative.memory_ref, 60),
            preview(&relative.id, 100),
            relative.state,
        ]
    });
    output::table(
        &["STEP", "MEMORY", "ID", "STATE"],
        rows.collect(),
        "Made from no other entry, and no entry was made from it",
    );
    Ok(())
}

pub async fn archive(global: &GlobalArgs, command: &ArchiveCommand) -> anyhow::Result<()> {
    let api = api(global).await?;
    match command {
        ArchiveCommand::List { memory_ref } => {
            let list = api.archives(memory_ref).await?.archives;
            if global.json {
                return list.iter().try_for_each(output::json);
            }
            let rows = list.into_iter().map(|archive| {
                let state = if archive.erased { "erased" } else { "kept" };
                let topics = preview(&archive.topics.join(", "), 48);
                vec![
                    archive.sha256,
                    archive.created_at.to_string(),
                    archive.source_count.to_string(),
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
        ArchiveCommand::Get { memory_ref, sha256 } => {
            // Not one byte is added: the digest names exactly these bytes.
            std::io::stdout().write_all(api.archive(memory_ref, sha256).await?.as_bytes())?;
        }
    }
    Ok(())
}
