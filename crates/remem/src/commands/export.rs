//! `remem export`: writes memory as JSON lines. It streams page by page, and an interrupted export
//! into a file can be resumed: its position is stored beside the file until it is finished. Data of
//! the host that an export or its import leaves out is counted, reported, and shown by the exit
//! code.

use super::remote_api;
use crate::cli::{ExportArgs, GlobalArgs};
use crate::output::{IncompleteResult, UsageError, count};
use crate::{config, host};
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use remem_core::sabotage;
use remem_server::{LocalApi, MemoryApi};
use remem_wire::commitment::CommitmentsQuery;
use remem_wire::memory::{EntryList, ListQuery, MemoriesQuery, ReadQuery};
use remem_wire::workshop::{EntryFacets, SlotQuery, TierName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The progress of an export, as it is stored beside its file.
#[derive(Clone, Default, Serialize, Deserialize)]
struct ExportPosition {
    /// The memory being written.
    memory_ref: Option<String>,
    /// The cursor of the next page of that memory.
    cursor: Option<String>,
    /// The length of the file up to its last complete page.
    bytes: u64,
    entries: u64,
    memories: u64,
    #[serde(default)]
    left_out: LeftOutCounts,
}

/// Counts of the data that the lines of an export, or their import, leave out.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeftOutCounts {
    /// Entries with a slot: the slot is in their line, but an import ignores it.
    slots: u64,
    /// Earlier answers of those slots, which no line holds.
    history: u64,
    /// Entries of sessions and chat threads, whose lines an import skips.
    transient: u64,
    /// Pending and armed commitments, which no line holds.
    commitments: u64,
    /// Entries that name subjects: the host keeps digests only, so no line holds the words.
    subjects: u64,
}

impl LeftOutCounts {
    fn is_any(&self) -> bool {
        self.slots + self.history + self.transient + self.commitments + self.subjects > 0
    }
}

struct Exporter {
    api: Arc<dyn MemoryApi>,
    output: BufWriter<Box<dyn Write>>,
    state_file: Option<PathBuf>,
    position: ExportPosition,
    progress: ProgressBar,
}

pub async fn run(global: &GlobalArgs, export: &ExportArgs) -> anyhow::Result<()> {
    let state = (export.file != Path::new("-")).then(|| state_path(&export.file));
    let at = start_position(export, state.as_deref())?;
    let output: Box<dyn Write> = match &state {
        None => Box::new(std::io::stdout()),
        Some(_) => Box::new(open_file(&export.file, at.bytes)?),
    };
    let progress = if std::io::stderr().is_terminal() {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let mut exporter = Exporter {
        api: export_api(global).await?,
        output: BufWriter::new(output),
        state_file: state,
        position: at,
        progress,
    };
    match &export.memory_ref {
        Some(memory_ref) => exporter.export_memory(memory_ref).await?,
        None => exporter.export_all().await?,
    }
    exporter
        .count_commitments(export.memory_ref.as_deref())
        .await?;
    exporter.finish(global)
}

/// Opens the memory API to export from. A store that is opened directly is exported whole, with the
/// memories of all users.
async fn export_api(global: &GlobalArgs) -> anyhow::Result<Arc<dyn MemoryApi>> {
    let config = config::load(global, None)?;
    if !global.local {
        return remote_api(global, &config).await;
    }
    let local = host::local_api(&config, global.local_tenant()).await?;
    let tenant = local.caller.tenant();
    let caller = sabotage!(
        "a-local-export-leaves-users-out",
        local.engine.local_reader_of_all_users(tenant).await?,
        local.caller.clone()
    );
    Ok(Arc::new(LocalApi { caller, ..local }))
}

/// Adds an entry's facets to its line, except those with default values: a plain memory is exported
/// as in earlier versions. The counts of corroboration are left out, because the evidence itself
/// does not leave the host.
fn add_facets(line: &mut Value, facets: &EntryFacets) -> anyhow::Result<()> {
    let Value::Object(all) = serde_json::to_value(facets)? else {
        return Ok(());
    };
    let defaults = json!({"tier": "persistent", "typology": "semantic", "source": "model"});
    for (name, value) in all {
        if defaults.get(&name) != Some(&value) && name != "corroboration" && name != "threads" {
            line[name] = value;
        }
    }
    Ok(())
}

fn state_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

/// Returns the position to start from: the stored one with `--resume`, else the beginning.
fn start_position(export: &ExportArgs, state: Option<&Path>) -> anyhow::Result<ExportPosition> {
    let Some(state) = state else {
        if export.resume {
            return Err(UsageError("--resume needs a file".to_owned()).into());
        }
        return Ok(ExportPosition::default());
    };
    if export.resume {
        let text = fs::read_to_string(state)
            .with_context(|| format!("nothing to resume: {} not found", state.display()))?;
        return serde_json::from_str(&text)
            .with_context(|| format!("{} cannot be read", state.display()));
    }
    if export.file.exists() {
        bail!(
            "{} exists; remove it, or pass --resume to continue it",
            export.file.display()
        );
    }
    Ok(ExportPosition::default())
}

/// Opens the file of an export, truncated to its last complete page.
fn open_file(path: &Path, bytes: u64) -> anyhow::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.set_len(bytes)?;
    Ok(file)
}

impl Exporter {
    async fn export_all(&mut self) -> anyhow::Result<()> {
        // An unfinished memory comes first, then everything after it by name.
        if let Some(unfinished) = self
            .position
            .memory_ref
            .clone()
            .filter(|_| self.position.cursor.is_some())
        {
            self.export_memory(&unfinished).await?;
        }
        let mut after = self.position.memory_ref.clone();
        loop {
            let page = self
                .api
                .memories(MemoriesQuery {
                    after,
                    ..MemoriesQuery::default()
                })
                .await?;
            for memory in &page.memories {
                self.export_memory(&memory.memory_ref).await?;
            }
            after = page.next_after;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn export_memory(&mut self, memory_ref: &str) -> anyhow::Result<()> {
        let mut cursor = self
            .position
            .cursor
            .take()
            .filter(|_| self.position.memory_ref.as_deref() == Some(memory_ref));
        loop {
            let query = ListQuery {
                limit: Some(500),
                cursor,
                include: Some("metadata,facets".to_owned()),
                ..ListQuery::default()
            };
            let page = self.api.list(memory_ref, query).await?;
            cursor = page.next_cursor.clone();
            self.count_history(memory_ref, &page).await?;
            self.export_page(memory_ref, page)?;
            if cursor.is_none() {
                let stats = self.api.stats(memory_ref, ReadQuery::default()).await?;
                self.position.left_out.subjects += stats.with_subject;
                self.position.memories += 1;
                return self.save_position();
            }
        }
    }

    fn export_page(&mut self, memory_ref: &str, mut page: EntryList) -> anyhow::Result<()> {
        for entry in &page.entries {
            let mut line = json!(entry);
            line["memoryRef"] = json!(memory_ref);
            if let Some(metadata) = page.metadata.remove(&entry.id) {
                line["metadata"] = json!(metadata);
            }
            if let Some(facets) = page.facets.remove(&entry.id) {
                self.position.left_out.slots += u64::from(facets.slot.is_some());
                self.position.left_out.transient += u64::from(facets.tier != TierName::Persistent);
                add_facets(&mut line, &facets)?;
            }
            let line = line.to_string();
            writeln!(self.output, "{line}")?;
            self.position.bytes += line.len() as u64 + 1;
            self.position.entries += 1;
        }
        self.output.flush()?;
        self.position.memory_ref = Some(memory_ref.to_owned());
        self.position.cursor = page.next_cursor;
        self.progress
            .set_message(format!("{} entries", self.position.entries));
        self.progress.tick();
        self.save_position()
    }

    /// Counts the earlier answers of the slots on a page.
    async fn count_history(&mut self, memory_ref: &str, page: &EntryList) -> anyhow::Result<()> {
        for (id, facets) in &page.facets {
            let Some(slot) = &facets.slot else { continue };
            let query = SlotQuery {
                session: facets.session.clone(),
            };
            let history = self.api.history(memory_ref, slot, query).await?;
            let earlier = history
                .answers
                .iter()
                .filter(|answer| answer.entry.id != *id);
            self.position.left_out.history += earlier.count() as u64;
        }
        Ok(())
    }

    /// Counts the pending and armed commitments of one memory or of all.
    async fn count_commitments(&mut self, memory_ref: Option<&str>) -> anyhow::Result<()> {
        for state in ["pending", "armed"] {
            let mut cursor = None;
            loop {
                let query = CommitmentsQuery {
                    memory_ref: memory_ref.map(str::to_owned),
                    state: Some(state.to_owned()),
                    cursor,
                    limit: Some(0),
                };
                let page = self.api.commitments(query).await?;
                self.position.left_out.commitments += page.commitments.len() as u64;
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Stores the position. The file is written whole and renamed, so that an interruption leaves
    /// the old position or the new one.
    fn save_position(&self) -> anyhow::Result<()> {
        if let Some(state) = &self.state_file {
            let fresh = state.with_extension("state.new");
            fs::write(&fresh, serde_json::to_string(&self.position)?)?;
            fs::rename(fresh, state)?;
        }
        Ok(())
    }

    fn finish(self, global: &GlobalArgs) -> anyhow::Result<()> {
        self.progress.finish_and_clear();
        if let Some(state) = &self.state_file {
            fs::remove_file(state)?;
        }
        let missing = &self.position.left_out;
        // The counts go to standard error: standard output may be the export itself.
        if global.json {
            let mut counts = json!({"memories": self.position.memories, "entries": self.position.entries, "bytes": self.position.bytes,
                "leftOut": missing});
            counts["leftOut"]["othersMemories"] = if global.local { json!(0) } else { Value::Null };
            eprintln!("{counts}");
        } else {
            eprintln!(
                "{} of {}, {} bytes",
                count(self.position.entries, "entry", "entries"),
                count(self.position.memories, "memory", "memories"),
                self.position.bytes
            );
            eprintln!(
                "left out: {}, {}, {} of sessions and chat threads (written, but not imported), {}, \
                 subjects of {}",
                count(
                    missing.slots,
                    "question of an entry",
                    "questions of entries"
                ),
                count(missing.history, "earlier answer", "earlier answers"),
                count(missing.transient, "entry", "entries"),
                count(missing.commitments, "commitment", "commitments"),
                count(missing.subjects, "entry", "entries")
            );
            if !global.local {
                eprintln!(
                    "not included: other users' own memories, which no key can read; --local exports them all"
                );
            }
        }
        if sabotage!(
            "an-export-is-silent-about-what-it-leaves-out",
            missing.is_any(),
            false
        ) {
            return Err(
                IncompleteResult("the export is not complete: see what was left out").into(),
            );
        }
        Ok(())
    }
}
