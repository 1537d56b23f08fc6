//! The two programs that are compared, and their data folders: each folder is made for one program
//! and one round, and removed after it.

use crate::Setup;
use crate::database::{BenchDatabase, PostgresServer};
use crate::host::{self, ServerProcess};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Base,
    With,
}

impl Side {
    /// Both sides in an order that changes from turn to turn, so that neither always comes first.
    pub fn in_turn(turn: usize) -> [Side; 2] {
        if turn.is_multiple_of(2) {
            [Side::Base, Side::With]
        } else {
            [Side::With, Side::Base]
        }
    }
}

/// One value for each side.
#[derive(Clone, Debug, Default)]
pub struct Pair<T> {
    pub base: T,
    pub with: T,
}

impl<T> Pair<T> {
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::Base => &self.base,
            Side::With => &self.with,
        }
    }

    pub fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Base => &mut self.base,
            Side::With => &mut self.with,
        }
    }

    /// Makes a value for each side, in an order that changes from turn to turn.
    pub fn make(
        turn: usize,
        mut make: impl FnMut(Side) -> anyhow::Result<T>,
    ) -> anyhow::Result<Pair<T>> {
        let [first, second] = Side::in_turn(turn);
        let one = make(first)?;
        let two = make(second)?;
        Ok(match first {
            Side::Base => Pair {
                base: one,
                with: two,
            },
            Side::With => Pair {
                base: two,
                with: one,
            },
        })
    }
}

/// An empty data folder, and an empty database if memory is stored on PostgreSQL.
pub struct DataPlace<'a> {
    setup: &'a Setup,
    folder: PathBuf,
    database: Option<(BenchDatabase<'a>, String)>,
}

impl<'a> DataPlace<'a> {
    /// Makes a data folder for the program of `setup`; the program itself prepares the database.
    pub fn new(
        setup: &'a Setup,
        server: Option<&'a PostgresServer>,
    ) -> anyhow::Result<DataPlace<'a>> {
        let folder = setup.new_folder("compare-")?;
        let database = match server {
            Some(server) => {
                let database = server.new_database()?;
                let url = database.migrate(setup)?;
                Some((database, url))
            }
            None => None,
        };
        Ok(DataPlace {
            setup,
            folder,
            database,
        })
    }

    /// Lets the host use the models that are installed in another data folder.
    pub fn use_models_of(&self, other: &Path) -> anyhow::Result<()> {
        let models = other.canonicalize()?.join("models");
        std::os::unix::fs::symlink(&models, self.folder.join("models"))
            .with_context(|| format!("cannot use {}", models.display()))
    }

    /// A command of the program that opens this data folder itself.
    pub fn command(&self) -> Command {
        let mut command = host::command(self.setup, &self.folder);
        command.arg("--local").args(self.options());
        command
    }

    /// Starts a server on this data folder. The test seams add the workflow that `runs` uses.
    pub fn serve(&self) -> anyhow::Result<ServerProcess> {
        let mut options = self.options();
        options.push("--enable-test-seams");
        ServerProcess::start_with(self.setup, &self.folder, &options)
    }

    /// The name of the database, if memory is stored on PostgreSQL.
    pub fn database_name(&self) -> Option<&str> {
        self.database.as_ref().map(|(database, _)| database.name())
    }

    fn options(&self) -> Vec<&str> {
        self.database
            .as_ref()
            .map_or_else(Vec::new, |(_, url)| vec!["--database", url])
    }

    /// The bytes on disk. A database is vacuumed before, so that plans and sizes do not depend on
    /// the time of its own vacuum.
    pub fn bytes_after_vacuum(&self) -> anyhow::Result<u64> {
        match &self.database {
            Some((database, _)) => database.vacuum(),
            None => host::bytes_below(&self.folder),
        }
    }
}

impl Drop for DataPlace<'_> {
    fn drop(&mut self) {
        // If this fails, the folder is removed at the end of the whole run.
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = std::fs::remove_file(self.folder.with_extension("log"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_made_in_alternating_order_without_swapping_sides() {
        for turn in 0..4 {
            let mut order = Vec::new();
            let pair = Pair::make(turn, |side| {
                order.push(side);
                Ok(side)
            })
            .unwrap();
            assert_eq!(order, Side::in_turn(turn));
            assert_eq!(*pair.of(Side::Base), Side::Base);
            assert_eq!(*pair.of(Side::With), Side::With);
        }
        assert_ne!(Side::in_turn(0), Side::in_turn(1));
    }
}
