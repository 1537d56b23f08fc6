//! A dataset: memories with entries, and questions with the entries that answer them. It also
//! decides what of a turn becomes the text of an entry, here and nowhere else. May not read a
//! format: each has a file of its own.

use crate::cli::{Format, Unit};
use crate::{jsonl, locomo, longmemeval};
use anyhow::{Context, bail};
use remem_core::Timestamp;
use remem_core::sabotage;
use remem_wire::error::json_hint;
use std::collections::HashSet;
use std::path::Path;

/// Between two turns of one session.
pub const TURN_MS: i64 = 30_000;

/// Entries and questions.
#[derive(Default)]
pub struct Dataset {
    /// The memories, each searched alone.
    pub memories: Vec<Memory>,
    /// The questions.
    pub questions: Vec<Question>,
    /// Questions that name no evidence which is there.
    pub skipped: usize,
}

/// One memory.
pub struct Memory {
    /// Its entries, in the order of their sessions.
    pub entries: Vec<Item>,
}

/// What one speaker said at a time.
#[derive(Clone)]
pub struct Item {
    /// What evidence calls it.
    pub id: String,
    /// When it was said.
    pub at: Timestamp,
    /// The session that it is of; empty if the dataset names none.
    pub session: String,
    /// What was said.
    pub said: String,
    /// By whom.
    pub speaker: Option<String>,
    /// What was shared with it, in words.
    pub caption: Option<String>,
    /// The day it was said, for the text.
    pub day: Option<String>,
}

/// One question.
#[derive(Clone)]
pub struct Question {
    /// The place of its memory.
    pub memory: usize,
    /// What is asked.
    pub text: String,
    /// The turns that answer it.
    pub evidence: Vec<String>,
    /// The sessions that answer it.
    pub sessions: Vec<String>,
    /// What kind of question it is.
    pub category: String,
    /// Whether the memory holds an answer.
    pub answerable: bool,
    /// When it is asked, if the dataset tells.
    pub at: Option<Timestamp>,
}

impl Question {
    /// What is to be found.
    pub fn evidence(&self, unit: Unit) -> &[String] {
        match unit {
            Unit::Turn => &self.evidence,
            Unit::Session => &self.sessions,
        }
    }
}

/// What of a turn stands in the text of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Who said it.
    pub speaker: bool,
    /// What was shared with it.
    pub caption: bool,
    /// When it was said.
    pub date: bool,
}

impl Look {
    /// All of it.
    pub const WHOLE: Look = Look {
        speaker: true,
        caption: true,
        date: true,
    };
    /// What was said alone.
    pub const PLAIN: Look = Look {
        speaker: false,
        caption: false,
        date: false,
    };
}

/// An entry to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// What evidence calls it.
    pub id: String,
    /// When it was said.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

impl Item {
    /// The text of its entry.
    pub fn text(&self, look: Look) -> String {
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
        format!("{speaker}{}{caption}{day}", self.said)
    }
}

impl Memory {
    /// Its entries as they are put. Without anything in it, an entry is none.
    pub fn texts(&self, unit: Unit, look: Look) -> Vec<Text> {
        let of = |item: &Item, look| Text {
            id: item.id.clone(),
            at: item.at,
            text: item.text(look),
        };
        let mut texts: Vec<Text> = Vec::new();
        match unit {
            Unit::Turn => texts.extend(self.entries.iter().map(|item| of(item, look))),
            Unit::Session => {
                for turns in self.entries.chunk_by(|a, b| a.session == b.session) {
                    let said: Vec<String> = turns
                        .iter()
                        .map(|item| {
                            item.text(Look {
                                date: false,
                                ..look
                            })
                        })
                        .collect();
                    let whole = turns.first().map(|first| Item {
                        said: said.join("\n"),
                        speaker: None,
                        caption: None,
                        ..first.clone()
                    });
                    texts.extend(whole.map(|whole| Text {
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
    /// Reads a file.
    pub fn read(file: &Path, format: Format) -> anyhow::Result<Dataset> {
        let name = file.display();
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {name} as UTF-8 text"))?;
        let format = if format == Format::Auto {
            guess(file, &text)?
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

    /// The last instant that it speaks of.
    pub fn last(&self) -> Timestamp {
        let said = self
            .memories
            .iter()
            .flat_map(|memory| &memory.entries)
            .map(|item| item.at);
        said.chain(self.questions.iter().filter_map(|question| question.at))
            .max()
            .unwrap_or_default()
    }

    /// Whether every entry is of a session.
    pub fn has_sessions(&self) -> bool {
        self.memories
            .iter()
            .all(|memory| memory.entries.iter().all(|item| !item.session.is_empty()))
    }
}

/// The first id that is there twice, by its place.
pub fn twice<'a>(ids: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut seen = HashSet::new();
    ids.enumerate()
        .find(|(_, id)| !seen.insert(*id))
        .map(|(place, _)| place)
}

/// What is wrong with a value, without a place: that of a value which was read before is not known
/// any more.
pub fn flaw(error: &serde_json::Error) -> String {
    let hint = sabotage!(
        "an-error-tells-what-a-dataset-says",
        json_hint(error),
        error.to_string() + &json_hint(error)
    );
    hint.rsplit_once(" (line")
        .map_or(hint.clone(), |(what, _)| what.to_owned())
}

/// What the file looks like: by its name, or by a field that only one format has.
fn guess(file: &Path, text: &str) -> anyhow::Result<Format> {
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
