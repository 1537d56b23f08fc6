//! A host with one memory of a given size: fills it, and measures operations on it.

use super::operations::Operation;
use crate::client::{Client, Request, memory};
use crate::compare::clock::{self, ProcessorTime};
use crate::compare::commands::import;
use crate::compare::side::DataPlace;
use crate::corpus::{Contents, Corpus, MEMORY};
use crate::database::PostgresServer;
use crate::host::{KEY, ServerProcess, timed};
use crate::table::number;
use crate::{Setup, reads};
use serde_json::{Value, json};

/// The question that has had a few answers.
pub const SLOT: &str = "favourite-drink";
/// The workflow that writes to the memory and reads it back.
pub const WORKFLOW: &str = "growth";
/// The first number of operations that only warm up; far from those that are measured.
const WARM_UP: usize = 50_000_000;

/// A running host, and what the operations on it need to know.
pub struct GrownHost<'a> {
    place: DataPlace<'a>,
    server: ServerProcess,
    postgres: Option<&'a PostgresServer>,
    pub client: Client,
    pub contents: Contents,
    /// The number of entries that the memory was filled with.
    pub entries: usize,
    /// The entries that puts have made and deletes have not yet deleted.
    pub written: Vec<String>,
    /// Where the next page of a list begins.
    pub cursor: Option<String>,
}

impl<'a> GrownHost<'a> {
    /// Imports the entries and starts a host, which then reads them for promises.
    pub fn fill(
        setup: &'a Setup,
        postgres: Option<&'a PostgresServer>,
    ) -> anyhow::Result<GrownHost<'a>> {
        let place = DataPlace::new(setup, postgres)?;
        let corpus = Corpus::write(setup)?;
        let (elapsed, _) = timed(import(&place, &corpus.file))?;
        std::fs::remove_file(&corpus.file)?;
        place.bytes_after_vacuum()?;
        let entries = number(setup.entries as f64);
        eprintln!(
            "{entries} entries imported in {:.1} s",
            elapsed.as_secs_f64()
        );
        let server = place.serve()?;
        let mut host = GrownHost {
            client: Client::connect(server.address())?,
            place,
            server,
            postgres,
            contents: corpus.contents,
            entries: setup.entries,
            written: Vec::new(),
            cursor: None,
        };
        host.prepare()?;
        clock::wait_until_idle(&host.server, true)?;
        eprintln!("the host of {entries} entries is idle");
        Ok(host)
    }

    /// Writes what single operations read: a question with answers, and a workflow.
    fn prepare(&mut self) -> anyhow::Result<()> {
        for drink in ["tea", "coffee", "water", "milk", "tea again"] {
            let content = format!("Ana prefers {drink}");
            self.post("entries", &json!({"content": content, "slot": SLOT}))?;
        }
        let node = |id: &str, config: Value| {
            let kind = "core.identity";
            json!({"id": id, "typeId": kind, "config": config})
        };
        let write =
            json!({"memoryAction": "write", "memoryRef": MEMORY, "contentFrom": "inputs.nonce"});
        let get =
            json!({"memoryAction": "get", "memoryRef": MEMORY, "idFrom": "variables.memoryId"});
        let read = json!({"memoryAction": "read", "memoryRef": MEMORY, "limit": 10});
        let nodes = [node("write", write), node("get", get), node("read", read)];
        let workflow = json!({"id": WORKFLOW, "nodes": nodes}).to_string();
        let path = format!("/v1/host/remembrancer/workflows/{WORKFLOW}");
        self.client.send(&Request::put(KEY, &path, &workflow))?;
        Ok(())
    }

    /// Posts to the memory.
    pub fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.post_to(&memory(MEMORY, path), body)
    }

    /// Posts to any path.
    pub fn post_to(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = Request::post(KEY, path, &body.to_string());
        Ok(serde_json::from_slice(self.client.send(&request)?)?)
    }

    /// Reads something of the memory.
    pub fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        self.get_from(&memory(MEMORY, path))
    }

    /// Reads from any path of the host.
    pub fn get_from(&mut self, path: &str) -> anyhow::Result<Value> {
        let request = Request::get(KEY, path);
        Ok(serde_json::from_slice(self.client.send(&request)?)?)
    }

    /// The id of an imported entry, a different one for most numbers.
    pub fn some_id(&self, n: usize) -> String {
        reads::some_id(self.entries, n)
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    /// Connects again: the host closes a connection that was idle, be it that other hosts had their
    /// turn or that a preparation took long.
    fn connect(&mut self) -> anyhow::Result<()> {
        self.client = Client::connect(self.server.address())?;
        Ok(())
    }

    /// Measures an operation from idle to idle; returns the processor time of one.
    pub fn measure(
        &mut self,
        operation: &Operation,
        round: usize,
    ) -> anyhow::Result<ProcessorTime> {
        let first = round * operation.count;
        self.connect()?;
        if let Some(prepare) = operation.prepare {
            prepare(self, first..first + operation.count)?;
            clock::wait_until_idle(&self.server, operation.writes)?;
            self.connect()?;
        }
        // The same kind of request, so that the first ones of a connection are not counted.
        let warm_up = if operation.writes {
            0
        } else {
            operation.count / 10
        };
        for n in 0..warm_up {
            (operation.run)(self, WARM_UP + n)?;
        }
        let database = self.database_clock()?;
        let before = clock::of_process(self.server.pid())?;
        for n in first..first + operation.count {
            (operation.run)(self, n)?;
        }
        let after = clock::wait_until_idle(&self.server, operation.writes)?;
        let count = u32::try_from(operation.count)?;
        Ok(ProcessorTime {
            host: after.saturating_sub(before) / count,
            database: self.database_clock()?.since(&database) / count,
        })
    }

    fn database_clock(&self) -> anyhow::Result<clock::ConnectionClock> {
        let postmaster = self.postgres.and_then(PostgresServer::postmaster);
        match (postmaster, self.place.database_name()) {
            (Some(postmaster), Some(name)) => clock::of_connections(postmaster, name),
            _ => Ok(clock::ConnectionClock::default()),
        }
    }

    pub fn stop(self) -> anyhow::Result<()> {
        self.server.stop()
    }
}
