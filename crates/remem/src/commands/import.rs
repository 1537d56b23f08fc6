//! `remem import`: stores JSON lines as entries. It streams, shows progress, and can be repeated:
//! entries keep their ids, ids that are taken are skipped, and lines without an id get one that is
//! derived from their position and text.

use super::api;
use crate::cli::{GlobalArgs, ImportArgs};
use crate::hints::{self, BOM};
use crate::output::{self, IncompleteResult};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use remem_core::{sabotage, strict_json};
use remem_engine::ports::{Clock, SystemClock};
use remem_server::MemoryApi;
use remem_wire::memory::ImportRequest;
use remem_wire::time::Instant;
use remem_wire::workshop::{SourceName, TierName, TypologyName};
use remem_wire::{Failure, ImportEntry, Metadata};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of entries in one request.
const BATCH_ENTRIES: usize = 500;
/// Maximum number of bytes of text in one request; well under the server's limit for a body.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// One line of an import: an exported entry, or as little as `{"content": …}`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImportLine {
    memory_ref: Option<String>,
    id: Option<String>,
    content: String,
    #[serde(default)]
    tags: Vec<String>,
    created_at: Option<Instant>,
    expires_at: Option<Instant>,
    metadata: Option<Metadata>,
    #[serde(default)]
    subjects: Vec<String>,
    tier: Option<TierName>,
    typology: Option<TypologyName>,
    world: Option<String>,
    valid_from: Option<Instant>,
    valid_to: Option<Instant>,
    source: Option<SourceName>,
    /// Exported lines name the slot, the session and the interaction of an entry. An import ignores
    /// them: the imported entry answers no question and belongs to no session or thread.
    slot: Option<IgnoredAny>,
    #[serde(rename = "session")]
    _session: Option<IgnoredAny>,
    #[serde(rename = "interaction")]
    _interaction: Option<IgnoredAny>,
}

/// Counts of lines by their outcome.
#[derive(Default, Serialize)]
struct ImportCounts {
    lines: u64,
    imported: u64,
    skipped: u64,
    expired: u64,
    /// Entries of a session or a chat thread, which are skipped. Left out of JSON if 0, so that the
    /// output of a plain import is as in earlier versions.
    #[serde(skip_serializing_if = "is_zero")]
    transient: u64,
    /// Entries that were imported without their slot. Left out of JSON if 0, too.
    #[serde(skip_serializing_if = "is_zero")]
    slots: u64,
    refused: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Entries of one memory that are sent together, each with the number of its line.
struct ImportBatch {
    memory_ref: String,
    bytes: usize,
    entries: Vec<(u64, ImportEntry)>,
}

struct Importer<'a> {
    api: Arc<dyn MemoryApi>,
    import: &'a ImportArgs,
    counts: ImportCounts,
    batch: ImportBatch,
}

pub async fn run(global: &GlobalArgs, import: &ImportArgs) -> anyhow::Result<()> {
    let (reader, size) = open_input(&import.file)?;
    let progress = progress_bar(size);
    let batch = ImportBatch {
        memory_ref: String::new(),
        bytes: 0,
        entries: Vec::new(),
    };
    let mut importer = Importer {
        api: api(global).await?,
        import,
        counts: ImportCounts::default(),
        batch,
    };
    let result = importer.run(progress.wrap_read(reader)).await;
    progress.finish_and_clear();
    let counts = &importer.counts;
    if global.json {
        output::json(counts)?;
    } else {
        println!(
            "{}: {} imported, {} skipped (id exists), {} expired, {} transient, {} without their question, {} refused",
            output::count(counts.lines, "line", "lines"),
            counts.imported,
            counts.skipped,
            counts.expired,
            counts.transient,
            counts.slots,
            counts.refused
        );
    }
    result?;
    if counts.refused > 0 {
        let refused = output::count(counts.refused, "line was", "lines were");
        bail!("{refused} refused; the rest is stored");
    }
    let left_out = counts.transient + counts.slots;
    if sabotage!(
        "an-import-is-silent-about-what-it-leaves-out",
        left_out > 0,
        false
    ) {
        return Err(IncompleteResult(
            "entries of sessions and chat threads were skipped, or questions of entries were left out",
        )
        .into());
    }
    Ok(())
}

pub fn open_input(file: &Path) -> anyhow::Result<(Box<dyn Read>, Option<u64>)> {
    if file == Path::new("-") {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let size = opened.metadata().ok().map(|m| m.len());
    Ok((Box::new(opened), size))
}

pub fn progress_bar(size: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = |template| {
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    match size {
        Some(size) => ProgressBar::new(size).with_style(style(
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}",
        )),
        None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes} {bytes_per_sec}")),
    }
}

impl Importer<'_> {
    async fn run(&mut self, reader: impl Read) -> anyhow::Result<()> {
        for (number, line) in BufReader::new(reader).lines().enumerate() {
            let line =
                line.with_context(|| format!("line {} cannot be read as UTF-8 text", number + 1))?;
            // Some editors begin a file with a mark that is not part of the text.
            let line = match number {
                0 => line.trim_start_matches(BOM),
                _ => line.as_str(),
            };
            if line.trim().is_empty() {
                continue;
            }
            self.counts.lines += 1;
            self.import_line(number as u64 + 1, line).await?;
        }
        self.flush().await
    }

    async fn import_line(&mut self, number: u64, text: &str) -> anyhow::Result<()> {
        let line: ImportLine = match strict_json::from_slice(text.as_bytes()) {
            Ok(line) => line,
            Err(error) => return self.refuse(number, &hints::json_line(&error.source)),
        };
        if line
            .expires_at
            .is_some_and(|end| end.0 <= SystemClock.now())
        {
            self.counts.expired += 1;
            return Ok(());
        }
        if line.tier.is_some_and(|tier| tier != TierName::Persistent) {
            self.counts.transient += 1;
            return Ok(());
        }
        self.counts.slots += u64::from(line.slot.is_some());
        let Some(memory_ref) = line.memory_ref.or_else(|| self.import.memory_ref.clone()) else {
            return self.refuse(number, "no memoryRef; add one, or pass --ref");
        };
        if memory_ref != self.batch.memory_ref
            || self.batch.entries.len() >= BATCH_ENTRIES
            || self.batch.bytes >= BATCH_BYTES
        {
            self.flush().await?;
            self.batch.memory_ref = memory_ref;
        }
        self.batch.bytes += text.len();
        let id = line.id.unwrap_or_else(|| derived_id(number, text));
        let entry = ImportEntry {
            id,
            content: line.content,
            tags: line.tags,
            created_at: line.created_at,
            expires_at: line.expires_at,
            metadata: line.metadata,
            subjects: line.subjects,
            tier: None,
            typology: line.typology,
            world: line.world,
            valid_from: line.valid_from,
            valid_to: line.valid_to,
            source: line.source,
        };
        self.batch.entries.push((number, entry));
        Ok(())
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        let entries = std::mem::take(&mut self.batch.entries);
        self.batch.bytes = 0;
        if entries.is_empty() {
            return Ok(());
        }
        let request = ImportRequest {
            entries: entries.iter().map(|(_, entry)| entry.clone()).collect(),
        };
        match self.send(request).await {
            Err(failure) if is_invalid(&failure) => self.send_one_by_one(entries).await,
            other => Ok(other?),
        }
    }

    /// Sends the entries of a refused batch one by one: the server refuses a batch as a whole, and
    /// only the bad line is to be left out.
    async fn send_one_by_one(&mut self, entries: Vec<(u64, ImportEntry)>) -> anyhow::Result<()> {
        for (number, entry) in entries {
            match self
                .send(ImportRequest {
                    entries: vec![entry],
                })
                .await
            {
                Err(failure) if is_invalid(&failure) => {
                    self.refuse(number, &failure.to_string())?
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn send(&mut self, request: ImportRequest) -> Result<(), Failure> {
        let done = self
            .api
            .import(&self.batch.memory_ref, request)
            .await?
            .value;
        self.counts.imported += done.imported;
        self.counts.skipped += done.skipped;
        Ok(())
    }

    fn refuse(&mut self, number: u64, why: &str) -> anyhow::Result<()> {
        self.counts.refused += 1;
        if self.import.strict {
            bail!("line {number}: {why}");
        }
        eprintln!("line {number}: {why}");
        Ok(())
    }
}

/// Returns whether a failure is the fault of a line: it is invalid, or claims more trust than the
/// key may vouch for.
fn is_invalid(failure: &Failure) -> bool {
    matches!(failure.status, 400 | 413 | 422) || failure.body.error == "trust_above_key"
}

/// Derives an id from the number and text of a line, so that a repeated import finds the entry
/// again.
fn derived_id(number: u64, text: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("remembrancer import id v1");
    hasher.update(&number.to_le_bytes());
    hasher.update(text.as_bytes());
    format!("imp_{}", &hasher.finalize().to_hex()[..32])
}
