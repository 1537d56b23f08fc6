//! What can be said about workshop memory: what an entry has beside its text, questions, sessions,
//! actions, retention, rules, profiles.

use clap::{Args, Subcommand};
use remem_wire::workshop::{SourceName, TierName, TypologyName};
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::path::PathBuf;

/// The name of a memory. `@me/notes` is `~/notes` for those who do not want to quote: a shell makes
/// a folder of `~/`.
pub fn memory(text: &str) -> Result<String, Infallible> {
    Ok(text
        .strip_prefix("@me/")
        .map_or_else(|| text.to_owned(), |rest| format!("~/{rest}")))
}

/// One of the names that the wire knows.
fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::json!(text))
        .map_err(|error| remem_wire::error::data_hint(&error.to_string()))
}

/// What an entry has beside its text.
#[derive(Args, Clone, Debug, Default)]
pub struct Facets {
    /// Chat thread that it was said in; without --tier it ends with that
    #[arg(long, value_name = "THREAD")]
    pub interaction: Option<String>,
    /// How long it lasts: interaction, session or persistent [default: as the memory's profile
    /// decides]
    #[arg(long, value_parser = named::<TierName>)]
    pub tier: Option<TierName>,
    /// What kind it is: episodic, semantic or procedural [default: as the memory's profile decides]
    #[arg(long, value_parser = named::<TypologyName>)]
    pub typology: Option<TypologyName>,
    /// World that it speaks of; its rules may not be restated
    #[arg(long)]
    pub world: Option<String>,
    /// Question that it answers: another answer takes its place
    #[arg(long)]
    pub slot: Option<String>,
    /// True from this instant (RFC 3339)
    #[arg(long, value_name = "INSTANT")]
    pub valid_from: Option<String>,
    /// No longer true from this instant (RFC 3339)
    #[arg(long, value_name = "INSTANT")]
    pub valid_to: Option<String>,
    /// Who says so: operator, action, tool, model or untrusted [default: model]
    #[arg(long, value_parser = named::<SourceName>)]
    pub source: Option<SourceName>,
    /// Where it was read, such as a URL; `remem forget source:URL` takes it away again
    #[arg(long, value_name = "PLACE")]
    pub source_ref: Option<String>,
    /// Who speaks in a chat turn: operator, agent or tool (kept as metadata)
    #[arg(long, value_parser = ["operator", "agent", "tool"])]
    pub speaker: Option<String>,
    /// Tool that is called in a chat turn (kept as metadata)
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
}

/// Which entries are meant.
#[derive(Args, Clone, Debug, Default)]
pub struct Which {
    /// What was true at this instant (RFC 3339), rather than now
    #[arg(long, value_name = "INSTANT")]
    pub as_of: Option<String>,
    /// Only of this tier: interaction, session or persistent
    #[arg(long, value_parser = named::<TierName>)]
    pub tier: Option<TierName>,
    /// Only of this kind: episodic, semantic or procedural
    #[arg(long, value_parser = named::<TypologyName>)]
    pub typology: Option<TypologyName>,
    /// Only of this chat thread
    #[arg(long, value_name = "THREAD")]
    pub interaction: Option<String>,
    /// Only of this session
    #[arg(long)]
    pub session: Option<String>,
    /// With --json: {"entry", "facets"} instead of entries alone
    #[arg(long)]
    pub facets: bool,
}

/// A question of a memory.
#[derive(Args)]
#[command(
    after_help = "Example: remem history @me/ops report_format\nA question of a session: remem history @me/ops report_format --session ses_…"
)]
pub struct Question {
    /// Name of the memory; @me/NAME is your own
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// The question, as `list` and the facets of an entry name it (slot)
    pub slot: String,
    /// As it was asked in this session, rather than for good
    #[arg(long)]
    pub session: Option<String>,
}

/// `remem session`.
#[derive(Subcommand)]
pub enum Session {
    /// List the sessions of a memory, the open one first
    #[command(after_help = "Example: remem session list @me/ops")]
    List {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// End the open session: what outlasts it is kept, the rest ends
    #[command(after_help = "Example: remem session close @me/ops")]
    Close {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
    },
    /// End a chat thread: what was ordered and corrected goes on in the session, the turns end
    #[command(after_help = "Example: remem session end-thread @me/ops thread-1")]
    EndThread {
        /// Name of the memory
        #[arg(value_parser = memory)]
        memory_ref: String,
        /// The chat thread, as --interaction named it
        thread: String,
    },
}

/// `remem link`.
#[derive(Args)]
#[command(
    after_help = "Example: remem link @me/ops mem_… --action gate.accept --reference change-42"
)]
pub struct Link {
    /// Name of the memory
    #[arg(value_parser = memory)]
    pub memory_ref: String,
    /// Entry id
    pub id: String,
    /// What was done
    #[arg(long)]
    pub action: String,
    /// Its name where it was done
    #[arg(long)]
    pub reference: String,
}

/// `remem retention`.
#[derive(Subcommand)]
pub enum Retention {
    /// Count what is kept, by what holds it
    #[command(after_help = "Example: remem retention status @me/ops")]
    Status {
        /// Name of the memory [default: all that you may see]
        #[arg(value_parser = memory)]
        memory_ref: Option<String>,
    },
}

/// `remem rule`.
#[derive(Subcommand)]
pub enum Rule {
    /// Write a rule of a world; one of the same name is replaced
    #[command(
        after_help = "Example: remem rule put gates coverage \"A change is accepted when its coverage is at least 80 per cent.\""
    )]
    Put {
        /// The world
        world: String,
        /// The rule's name
        id: String,
        /// What it says
        body: String,
    },
    /// List the rules of a world
    #[command(after_help = "Example: remem rule list gates")]
    List {
        /// The world
        world: String,
    },
    /// Take a rule away
    #[command(after_help = "Example: remem rule delete gates coverage")]
    Delete {
        /// The world
        world: String,
        /// The rule's name
        id: String,
    },
    /// Say whether a text restates a rule, so that a put of it would be refused
    #[command(
        after_help = "Example: remem rule check gates \"Coverage has to be at least 80 per cent.\""
    )]
    Check {
        /// The world
        world: String,
        /// The text
        text: String,
    },
    /// Read rules from JSON lines, {"id", "body"} each; can be repeated
    #[command(after_help = "Example: remem rule import gates rules.jsonl")]
    Import {
        /// The world
        world: String,
        /// File of JSON lines; `-` reads standard input
        file: PathBuf,
    },
}

/// `remem profile`.
#[derive(Subcommand)]
pub enum Profile {
    /// List the profiles: which memories have which, and every value
    #[command(after_help = "Example: remem profile list")]
    List,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_own_memory_needs_no_quotes() {
        for (typed, meant) in [
            ("@me/ops", "~/ops"),
            ("~/ops", "~/ops"),
            ("@meadow/x", "@meadow/x"),
            ("team", "team"),
            ("a@me/b", "a@me/b"),
        ] {
            assert_eq!(memory(typed).unwrap(), meant);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_are_known() {
        assert_eq!(named::<TierName>("session"), Ok(TierName::Session));
        assert!(
            named::<SourceName>("rumour")
                .unwrap_err()
                .contains("`operator`")
        );
    }
}
