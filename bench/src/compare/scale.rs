//! The choices of a caller: how much is done, which operations, and on which store.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How many operations each figure is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// A tenth, to see that everything works; its figures mean nothing.
    Small,
    /// Ten rounds of everything on both stores take about twelve minutes on two cores.
    Normal,
    /// Four times as many.
    Large,
}

impl Scale {
    /// A count of the normal scale, converted to this one.
    pub fn scaled(self, count: usize) -> usize {
        match self {
            Scale::Small => count.div_ceil(10),
            Scale::Normal => count,
            // An operation that is done once stays one operation.
            Scale::Large => count * if count > 1 { 4 } else { 1 },
        }
    }

    /// The number of entries of the memory that is read.
    pub fn corpus(self) -> usize {
        self.scaled(5_000)
    }

    /// The number of entries where instructions are counted: a simulated processor is slow.
    pub fn corpus_of_commands(self) -> usize {
        self.scaled(500)
    }

    pub fn rounds(self) -> usize {
        match self {
            Scale::Small => 1,
            _ => 10,
        }
    }
}

/// A group of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    Puts,
    Gets,
    Lists,
    Searches,
    Recall,
    Runs,
    Passes,
    Import,
    /// Memory, disk, start and size of the program.
    Footprint,
    /// Vectors and search by meaning; needs --models.
    Meaning,
}

/// The stores that a comparison uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreChoice {
    Sqlite,
    Postgres,
    Both,
}

/// The quantity that a comparison measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountMode {
    /// Processor time of the server, user and system.
    Time,
    /// Instructions of single commands, without a server.
    Instructions,
}
