//! Converts a session's entries to the episodes that `remem_core::compound` reads, and the patterns
//! it finds to drafts of persistent procedures. The speaker and the called tools are in an entry's
//! metadata: `speaker`, `tool`, `tools`.

use super::close::PromotedEntry;
use remem_core::compound;
use remem_core::{Draft, Entry, EntryId, Episode, Facets, Pattern, Speaker, Tier, Typology};
use serde_json::Value;
use std::collections::BTreeSet;

/// Tools of one entry that are considered, at most.
const TOOLS_MAX: usize = 200;

/// The author of the entry, by its metadata.
fn speaker(entry: &Entry) -> Speaker {
    match entry
        .metadata
        .as_ref()
        .and_then(|map| map.get("speaker"))
        .and_then(Value::as_str)
    {
        Some("operator" | "user") => Speaker::Operator,
        Some("agent" | "assistant") => Speaker::Agent,
        Some("tool") => Speaker::Tool,
        _ => Speaker::Unknown,
    }
}

/// The tools that were called, by the entry's metadata.
pub(super) fn tools(entry: &Entry) -> Vec<&str> {
    let Some(map) = &entry.metadata else {
        return Vec::new();
    };
    let listed = map
        .get("tools")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    map.get("tool")
        .and_then(Value::as_str)
        .into_iter()
        .chain(listed)
        .take(TOOLS_MAX)
        .collect()
}

/// An entry and one of its parts: its text and first tool, its second tool, and so on.
type EpisodePart = (EntryId, usize);

/// The episodes in a list of entries: one for each, and one for each further tool.
fn episodes(entries: &[Entry]) -> Vec<Episode<'_, EpisodePart>> {
    let mut found = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| entry.typology == Typology::Episodic)
    {
        let thread = thread(entry);
        let tools = tools(entry);
        let episode = |part, text, tool| Episode {
            id: (entry.id.clone(), part),
            at: entry.created_at,
            thread,
            speaker: speaker(entry),
            tool,
            text,
            trust: entry.facets.trust,
        };
        found.push(episode(0, entry.content.as_str(), tools.first().copied()));
        found.extend(
            tools
                .iter()
                .enumerate()
                .skip(1)
                .map(|(part, tool)| episode(part, "", Some(*tool))),
        );
    }
    found
}

/// The chat thread of an entry. A digest of a thread names the thread in its metadata.
fn thread(entry: &Entry) -> &str {
    let in_metadata = entry
        .metadata
        .as_ref()
        .and_then(|map| map.get("interaction"))
        .and_then(Value::as_str);
    entry
        .facets
        .interaction
        .as_ref()
        .map(|id| id.as_str())
        .or(in_metadata)
        .unwrap_or("")
}

/// Patterns of a session, as persistent procedures.
pub(super) fn session_patterns(entries: &[Entry]) -> Vec<PromotedEntry> {
    compound::session_patterns(&episodes(entries))
        .into_iter()
        .map(|pattern| promoted_pattern(pattern, Tier::Persistent))
        .collect()
}

/// Patterns of a chat thread, as procedures of its session.
pub(super) fn thread_patterns(entries: &[Entry]) -> Vec<PromotedEntry> {
    compound::thread_patterns(&episodes(entries))
        .into_iter()
        .map(|pattern| promoted_pattern(pattern, Tier::Session))
        .collect()
}

/// The entry that a pattern becomes.
fn promoted_pattern(pattern: Pattern<EpisodePart>, tier: Tier) -> PromotedEntry {
    let facets = Facets {
        slot: Some(pattern.slot),
        trust: pattern.trust,
        evidence: pattern.evidence,
        ..Facets::default()
    };
    let tags = vec![format!("source:compounded-{}", pattern.kind.as_str())];
    let draft = Draft {
        content: pattern.text,
        tags,
        tier,
        typology: Typology::Procedural,
        facets,
        ..Draft::default()
    };
    let sources: BTreeSet<EntryId> = pattern.sources.into_iter().map(|(id, _)| id).collect();
    PromotedEntry {
        draft,
        sources: sources.into_iter().collect(),
    }
}
