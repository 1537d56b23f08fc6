//! How much is done, what of it, and where: the values that a caller may choose from.

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
    /// A count of the normal scale, as it is in this one.
    pub fn times(self, count: usize) -> usize {
        match self {
            Scale::Small => count.div_ceil(10),
            Scale::Normal => count,
            // What is done once stays one operation.
            Scale::Large => count * if count > 1 { 4 } else { 1 },
        }
    }

    /// Entries of the memory that is read.
    pub fn corpus(self) -> usize {
        self.times(5_000)
    }

    /// Entries where instructions are counted: a simulated processor takes its time.
    pub fn corpus_of_commands(self) -> usize {
        self.times(500)
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

/// Where memory is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    Sqlite,
    Postgres,
    Both,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Count {
    /// Processor time of the server, user and system.
    Time,
    /// Instructions of single commands, without a server.
    Instructions,
}
