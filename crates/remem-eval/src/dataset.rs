//! A dataset: memories with entries, and questions with the entries that answer them. It also
//! decides which parts of a turn become the text of an entry, here and nowhere else. May not read a
//! format: each has a file of its own.

use crate::cli::{EntryUnit, Format};
use crate::{jsonl, locomo, longmemeval};
use anyhow::{Context, bail};
use remem_core::Timestamp;
use remem_core::sabotage;
use remem_wire::error::json_hint;
use std::collections::HashSet;
use std::path::Path;

/// The assumed time between two turns of one session, in milliseconds.
pub const TURN_MS: i64 = 30_000;

/// The entries and questions of a dataset.
#[derive(Default)]
pub struct Dataset {
    /// The memories, each searched alone.
    pub memories: Vec<DatasetMemory>,
    pub questions: Vec<EvalQuestion>,
    /// The number of questions whose evidence is not in the dataset.
    pub skipped: usize,
}

/// One memory of a dataset.
pub struct DatasetMemory {
    /// Its turns, in the order of their sessions.
    pub entries: Vec<DatasetTurn>,
}

/// One utterance of one speaker.
#[derive(Clone)]
pub struct DatasetTurn {
    /// The id by which evidence refers to it.
    pub id: String,
    pub at: Timestamp,
    /// The session that it belongs to; empty if the dataset has none.
    pub session: String,
    /// The spoken or written text.
    pub text: String,
    pub speaker: Option<String>,
    /// The description of an image that was shared with it.
    pub caption: Option<String>,
    /// The day of the utterance, in the form for the text.
    pub day: Option<String>,
}

/// One question about a memory.
#[derive(Clone)]
pub struct EvalQuestion {
    /// The index of its memory.
    pub memory: usize,
    pub text: String,
    /// The ids of the turns that answer it.
    pub evidence: Vec<String>,
    /// The ids of the sessions that answer it.
    pub sessions: Vec<String>,
    /// The dataset's name for this kind of question.
    pub category: String,
    /// True if the memory holds an answer.
    pub answerable: bool,
    /// The instant at which it is asked, if the dataset gives one.
    pub at: Option<Timestamp>,
}

impl EvalQuestion {
    /// The ids to be found if entries are of this unit.
    pub fn evidence(&self, unit: EntryUnit) -> &[String] {
        match unit {
            EntryUnit::Turn => &self.evidence,
            EntryUnit::Session => &self.sessions,
        }
    }
}

/// The parts of a turn that are in the text of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextParts {
    /// The name of the speaker.
    pub speaker: bool,
    /// The description of a shared image.
    pub caption: bool,
    /// The day of the utterance.
    pub date: bool,
}

impl TextParts {
    /// All parts of a turn.
    pub const ALL: TextParts = TextParts {
        speaker: true,
        caption: true,
        date: true,
    };
    /// The spoken text only.
    pub const SPEECH_ONLY: TextParts = TextParts {
        speaker: false,
        caption: false,
        date: false,
    };
}

/// The text of an entry that is to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryText {
    /// The id by which evidence refers to it.
    pub id: String,
    pub at: Timestamp,
    pub text: String,
}

impl DatasetTurn {
    /// The text of the turn's entry.
    pub fn text(&self, look: TextParts) -> String {
        let speaker = self
            .speaker
            .as_ref()
            .filter(|_| look.speaker)
            .map_or_else(String::new, |who| format!("{who}: "));
        let caption = self
            .caption
            .as_ref()
            .filter(|_| look.caption)
            .map_or_else(String::new, |what| format!(" [shares {what}]"));
        let day = self
            .day
            .as_ref()
            .filter(|_| look.date)
            .map_or_else(String::new, |day| format!(" ({day})"));
        format!("{speaker}{}{caption}{day}", self.text)
    }
}

impl DatasetMemory {
    /// The texts of the memory's entries. Empty texts are left out.
    pub fn texts(&self, unit: EntryUnit, look: TextParts) -> Vec<EntryText> {
        let of = |item: &DatasetTurn, look| EntryText {
            id: item.id.clone(),
            at: item.at,
            text: item.text(look),
        };
        let mut texts: Vec<EntryText> = Vec::new();
        match unit {
            EntryUnit::Turn => texts.extend(self.entries.iter().map(|item| of(item, look))),
            EntryUnit::Session => {
                for turns in self.entries.chunk_by(|a, b| a.session == b.session) {
                    let said: Vec<String> = turns
                        .iter()
                        .map(|item| {
                            item.text(TextParts {
                                date: false,
                                ..look
                            })
                        })
                        .collect();
                    let whole = turns.first().map(|first| DatasetTurn {
                        text: said.join("\n"),
                        speaker: None,
                        caption: None,
                        ..first.clone()
                    });
                    texts.extend(whole.map(|whole| EntryText {
                        id: whole.session.clone(),
                        ..of(&whole, look)
                    }));
                }
            }
        }
        texts.retain(|text| !text.text.trim().is_empty());
        texts
    }
}

impl Dataset {
    /// Reads and checks a file in one of the formats.
    pub fn read(file: &Path, format: Format) -> anyhow::Result<Dataset> {
        let name = file.display();
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {name} as UTF-8 text"))?;
        let format = if format == Format::Auto {
            detect_format(file, &text)?
        } else {
            format
        };
        let dataset = match format {
            Format::Locomo => locomo::read(&text),
            Format::Longmemeval => longmemeval::read(&text),
            Format::Jsonl | Format::Auto => jsonl::read(&text),
        };
        let dataset = dataset.with_context(|| format!("{name} cannot be used"))?;
        if dataset.questions.is_empty() {
            bail!("{name} has no question with evidence");
        }
        Ok(dataset)
    }

    /// The latest instant in the dataset.
    pub fn latest_instant(&self) -> Timestamp {
        let said = self
            .memories
            .iter()
            .flat_map(|memory| &memory.entries)
            .map(|item| item.at);
        said.chain(self.questions.iter().filter_map(|question| question.at))
            .max()
            .unwrap_or_default()
    }

    /// Returns true if every entry belongs to a session.
    pub fn has_sessions(&self) -> bool {
        self.memories
            .iter()
            .all(|memory| memory.entries.iter().all(|item| !item.session.is_empty()))
    }
}

/// The index of the first id that occurs for the second time.
pub fn first_duplicate<'a>(ids: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut seen = HashSet::new();
    ids.enumerate()
        .find(|(_, id)| !seen.insert(*id))
        .map(|(place, _)| place)
}

/// The error of reading a value, without its position: for a value that was parsed before, the
/// position is unknown.
pub fn error_hint(error: &serde_json::Error) -> String {
    let hint = sabotage!(
        "an-error-tells-what-a-dataset-says",
        json_hint(error),
        error.to_string() + &json_hint(error)
    );
    hint.rsplit_once(" (line")
        .map_or(hint.clone(), |(what, _)| what.to_owned())
}

/// Detects the format of a file, by its name or by a field that only one format has.
fn detect_format(file: &Path, text: &str) -> anyhow::Result<Format> {
    if file.extension().is_some_and(|end| end == "jsonl") {
        return Ok(Format::Jsonl);
    }
    let is_list = text.trim_start().starts_with('[');
    match (
        is_list,
        text.contains("\"haystack_sessions\""),
        text.contains("\"conversation\""),
    ) {
        (true, true, false) => Ok(Format::Longmemeval),
        (true, false, true) => Ok(Format::Locomo),
        _ => bail!(
            "{} looks like none of the formats; say which it is with --format",
            file.display()
        ),
    }
}
