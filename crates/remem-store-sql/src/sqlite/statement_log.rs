//! For tests: the texts of all statements that the connections to the files of a folder run.

use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The statements that were run, each once.
#[derive(Clone, Default)]
pub(super) struct StatementLog(Arc<Mutex<BTreeSet<String>>>);

static WATCHED: Mutex<Vec<(PathBuf, StatementLog)>> = Mutex::new(Vec::new());

impl StatementLog {
    pub fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Records the statements of connections that are opened from now on to files below `folder`.
pub(super) fn watch(folder: &Path) -> StatementLog {
    let log = StatementLog::default();
    let watched = (folder.to_owned(), log.clone());
    WATCHED.lock().unwrap().push(watched);
    log
}

/// Records the statements of a connection that was just opened, if its folder is watched.
pub(super) fn attach(db: &mut Connection, path: &Path) {
    let watched = WATCHED.lock().unwrap();
    let Some((_, log)) = watched.iter().find(|(folder, _)| path.starts_with(folder)) else {
        return;
    };
    let log = log.clone();
    let record = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            let text = statement.sql().into_owned();
            log.0.lock().unwrap().insert(text);
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(record))
        .unwrap();
}
