//! `remem put`, `get`, `list`, `delete`, `stats` and `memories`.

use super::api;
use super::workshop::validity;
use crate::cli::{Duration, EntryArgs, GlobalArgs, ListArgs, PutArgs};
use crate::output::{self, UsageError, escape_controls, preview};
use anyhow::Context;
use remem_engine::ports::{Clock, SystemClock};
use remem_wire::entry::EntryBeside;
use remem_wire::memory::{GetQuery, ListQuery, MemoriesQuery, ReadQuery};
use remem_wire::reader;
use remem_wire::time::Instant;
use remem_wire::workshop::EntryFacets;
use remem_wire::{MemoryEntry, Metadata, PutEntry};
use serde_json::json;
use std::io::{IsTerminal, Read};

pub async fn put(global: &GlobalArgs, put: &PutArgs) -> anyhow::Result<()> {
    let facets = &put.facets;
    let entry = PutEntry {
        content: content(&put.content)?,
        tags: put.tags.clone(),
        expires_at: expires_at(put)?,
        metadata: metadata(put),
        subjects: put.subjects.clone(),
        tier: facets.tier,
        typology: facets.typology,
        interaction: facets.interaction.clone(),
        world: facets.world.clone(),
        slot: facets.slot.clone(),
        valid_from: facets.valid_from,
        valid_to: facets.valid_to,
        source: facets.source,
        source_ref: facets.source_ref.clone(),
    };
    let written = api(global)
        .await?
        .put(&put.memory_ref, entry, put.idempotency_key.as_deref())
        .await?;
    if global.json {
        let EntryBeside { entry, facets, .. } = written.value;
        return output::json(
            &json!({"entry": entry, "facets": facets, "revision": written.revision}),
        );
    }
    let again = if written.replayed { ", as before" } else { "" };
    println!(
        "{}  (revision {}{again})",
        written.value.entry.id, written.revision
    );
    Ok(())
}

/// The metadata that was given, with the speaker and the tool.
fn metadata(put: &PutArgs) -> Option<Metadata> {
    let given = put.metadata.clone();
    let flags = [("speaker", &put.facets.speaker), ("tool", &put.facets.tool)];
    let from_flags: Metadata = flags
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))))
        .collect();
    if from_flags.is_empty() {
        return given;
    }
    Some(
        given
            .unwrap_or_default()
            .into_iter()
            .chain(from_flags)
            .collect(),
    )
}

/// The words that were typed; without any, or for `-`, standard input.
fn content(words: &[String]) -> anyhow::Result<String> {
    if !words.is_empty() && words != ["-"] {
        return Ok(words.join(" "));
    }
    if std::io::stdin().is_terminal() {
        eprintln!("Reading the text from the terminal; end it with Ctrl-D.");
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input is not UTF-8 text")?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

fn expires_at(put: &PutArgs) -> anyhow::Result<Option<Instant>> {
    let Some(ttl) = put.ttl else {
        return Ok(put.expires_at);
    };
    Ok(Some(after_now(ttl, "--ttl")?))
}

/// The instant so far from now.
pub fn after_now(duration: Duration, option: &str) -> anyhow::Result<Instant> {
    let then = duration.after(SystemClock.now()).map(Instant);
    then.ok_or_else(|| UsageError(format!("{option} leads past the year 9999")).into())
}

pub async fn get(global: &GlobalArgs, target: &EntryArgs) -> anyhow::Result<()> {
    let query = GetQuery {
        include: Some("facets".to_owned()),
        ..GetQuery::default()
    };
    let EntryBeside { entry, facets, .. } = api(global)
        .await?
        .get(&target.memory_ref, &target.id, query)
        .await?;
    if global.json {
        return output::json(&entry);
    }
    println!("id       {}", escape_controls(&entry.id));
    println!("created  {}", entry.created_at);
    if let Some(end) = entry.expires_at {
        println!("expires  {end}");
    }
    if !entry.tags.is_empty() {
        println!("tags     {}", preview(&entry.tags.join(", "), 200));
    }
    if let Some(facets) = facets {
        println!("kind     {}", kind(&facets));
        println!("valid    {}", validity(&facets));
    }
    println!("\n{}", escape_controls(&reader::text(&entry)));
    Ok(())
}

pub async fn list(global: &GlobalArgs, list: &ListArgs) -> anyhow::Result<()> {
    let api = api(global).await?;
    let which = &list.which;
    let mut query = ListQuery {
        tag: list.tag.clone(),
        at_least: list.at_least.clone(),
        include: Some("facets".to_owned()),
        as_of: which.as_of,
        tier: which.tier,
        typology: which.typology,
        interaction: which.interaction.clone(),
        session: which.session.clone(),
        ..ListQuery::default()
    };
    let mut rows = Vec::new();
    let mut remaining = if list.limit == 0 {
        u32::MAX
    } else {
        list.limit
    };
    loop {
        query.limit = Some(remaining.min(1_000));
        let page = api.list(&list.memory_ref, query.clone()).await?;
        remaining -= (page.entries.len() as u32).min(remaining);
        for entry in &page.entries {
            let facets = page.facets.get(&entry.id);
            match (global.json, which.facets) {
                (true, true) => output::json(&json!({"entry": entry, "facets": facets}))?,
                (true, false) => output::json(entry)?,
                (false, _) => rows.push(row(entry, facets)),
            }
        }
        query.cursor = page.next_cursor.filter(|_| remaining > 0);
        if query.cursor.is_none() {
            break;
        }
    }
    if !global.json {
        output::table(
            &["ID", "CREATED", "KIND", "VALID", "TAGS", "CONTENT"],
            rows,
            "no entries",
        );
    }
    Ok(())
}

/// Renders tier and kind as one cell of a table.
fn kind(facets: &EntryFacets) -> String {
    format!("{}/{}", facets.tier.as_str(), facets.typology.as_str())
}

/// Renders an entry as a row of a table.
pub fn row(entry: &MemoryEntry, facets: Option<&EntryFacets>) -> Vec<String> {
    let (kind, valid) =
        facets.map_or_else(Default::default, |facets| (kind(facets), validity(facets)));
    let tags = preview(&entry.tags.join(","), 24);
    let content = preview(&reader::line(entry), 72);
    vec![
        preview(&entry.id, 40),
        entry.created_at.to_string(),
        kind,
        valid,
        tags,
        content,
    ]
}

pub async fn delete(global: &GlobalArgs, target: &EntryArgs) -> anyhow::Result<()> {
    let written = api(global)
        .await?
        .delete(&target.memory_ref, &target.id, None)
        .await?;
    if global.json {
        let mut body = json!({"deleted": true, "revision": written.revision});
        if written.value.held {
            body["held"] = json!(true);
        }
        return output::json(&body);
    }
    println!("deleted  (revision {})", written.revision);
    if written.value.held {
        eprintln!(
            "Its text is kept because an action rests on it (`remem audit` shows which); `remem forget` erases it."
        );
    }
    Ok(())
}

pub async fn stats(global: &GlobalArgs, memory_ref: &str) -> anyhow::Result<()> {
    let stats = api(global)
        .await?
        .stats(memory_ref, ReadQuery::default())
        .await?;
    if global.json {
        return output::json(&stats);
    }
    let show = |t: Option<Instant>| t.map_or_else(|| "-".to_owned(), |t| t.to_string());
    println!("entries   {}", stats.entries);
    println!("bytes     {}", stats.content_bytes);
    println!("expiring  {}", stats.expiring);
    println!("subjects  {}", stats.with_subject);
    println!("oldest    {}", show(stats.oldest));
    println!("newest    {}", show(stats.newest));
    Ok(())
}

pub async fn memories(global: &GlobalArgs) -> anyhow::Result<()> {
    let api = api(global).await?;
    let mut query = MemoriesQuery {
        limit: Some(0),
        ..MemoriesQuery::default()
    };
    let mut rows = Vec::new();
    loop {
        let page = api.memories(query.clone()).await?;
        for memory in &page.memories {
            if global.json {
                output::json(memory)?;
            } else {
                rows.push(vec![
                    preview(&memory.memory_ref, 100),
                    memory.entries.to_string(),
                ]);
            }
        }
        query.after = page.next_after;
        if query.after.is_none() {
            break;
        }
    }
    if !global.json {
        output::table(&["MEMORY", "ENTRIES"], rows, "no memories yet");
    }
    Ok(())
}
