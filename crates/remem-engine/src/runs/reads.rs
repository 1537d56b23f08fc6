//! The reads of a run. Each answer is recorded, so that a replay gives the same one byte for byte,
//! independent of later changes to memory.

use super::execution::{Halt, RunExecution};
use crate::cpu;
use crate::error::EngineError;
use crate::stored::file::StoredFile;
use crate::stored::run::StoredRead;
use crate::tokens::O200k;
use remem_core::sabotage;
use remem_core::{Entry, EntryId, RecordKind, RunId, StoredRecord};
use remem_store::{Filter, Page};
use serde_json::{Value, json};

/// The parameters of a list inside a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListArgs {
    pub limit: Option<u32>,
    pub tag: Option<String>,
    /// Limit for the tokens of all content together; an entry that does not fit is left out whole.
    pub token_budget: Option<u64>,
}

impl RunExecution<'_> {
    /// Lists entries of a memory, newest first, as JSON documents.
    pub async fn list(&mut self, memory_ref: &str, args: &ListArgs) -> Result<Vec<Value>, Halt> {
        let request = json!({"op": "list", "memoryRef": memory_ref, "limit": args.limit, "tag": args.tag, "tokenBudget": args.token_budget});
        let answer = match self.replayed_answer(&request).await? {
            Some(answer) => answer,
            None => Value::from(self.list_now(memory_ref, args).await?),
        };
        Ok(self
            .record_answer(request, answer)
            .await?
            .as_array()
            .cloned()
            .unwrap_or_default())
    }

    /// Reads one entry as a JSON document, or null.
    pub async fn get(&mut self, memory_ref: &str, id: &str) -> Result<Value, Halt> {
        let request = json!({"op": "get", "memoryRef": memory_ref, "id": id});
        let answer = match self.replayed_answer(&request).await? {
            Some(answer) => answer,
            None => self.get_now(memory_ref, id).await?,
        };
        self.record_answer(request, answer).await
    }

    /// Names of entries of a memory, those first that answer a query best.
    pub async fn ranked(&mut self, memory_ref: &str, query: &str) -> Result<Vec<Value>, Halt> {
        let asked = json!({"op": "search", "memoryRef": memory_ref, "query": query});
        let answer = match self.replayed_answer(&asked).await? {
            Some(answer) => answer,
            None => self.ranked_now(memory_ref, query).await?,
        };
        let answer = self.record_answer(asked, answer).await?;
        Ok(answer.as_array().cloned().unwrap_or_default())
    }

    async fn ranked_now(&self, memory_ref: &str, query: &str) -> Result<Value, Halt> {
        let Some(scope) = self.scope(memory_ref) else {
            return Ok(json!([]));
        };
        let at = self.read_at(self.now().await?);
        let found = self.engine.search_at(scope, query, at).await?;
        let names = found.iter().map(|id| json!(id.as_str()));
        Ok(names.collect())
    }

    /// A workspace file as it was when the run began, or null.
    pub async fn file(&mut self, path: &str) -> Result<Value, Halt> {
        let request = json!({"op": "file", "path": path});
        let answer = match self.replayed_answer(&request).await? {
            Some(answer) => answer,
            None => self.file_now(path).await?,
        };
        self.record_answer(request, answer).await
    }

    /// In a replay, returns the recorded answer. Otherwise commits what is staged, so that the
    /// following read sees it, and returns `None`.
    pub async fn replayed_answer(&mut self, request: &Value) -> Result<Option<Value>, Halt> {
        self.step += 1;
        if let Some(source) = self.run.state.source.clone().filter(|_| {
            sabotage!(
                "a-replay-reads-live-memory",
                self.replay_facts.is_some(),
                false
            )
        }) {
            return self
                .recorded_answer(&source.run_id, &self.read_key(), request)
                .await
                .map(Some);
        }
        if self.has_staged_changes() {
            self.commit_midway().await?;
        }
        Ok(None)
    }

    /// The key of the current read within the run.
    fn read_key(&self) -> String {
        format!("{:03}.{:03}", self.node_index, self.step)
    }

    /// Records an answer with the next commit, and returns it as recorded. The run must use the
    /// recorded answer, not the original: only then is a replay the same.
    pub async fn record_answer(&mut self, request: Value, answer: Value) -> Result<Value, Halt> {
        let read = StoredRead {
            key: format!("{}/{}", self.run.id, self.read_key()),
            asked: request,
            answer,
        };
        let limit = self.policy.run_read_bytes_max;
        if serde_json::to_string(&read).map_or(0, |text| text.len()) > limit {
            return Err(Halt::fault(
                "read_too_large",
                "a read of the run is larger than this host records: ask for less",
            ));
        }
        let now = self.now().await?;
        let admission = self.rules.admission(&self.policy, now);
        let key = read.key.clone();
        let redacted = self
            .engine
            .redact_body(&self.tenant, &admission, read.to_map())
            .await?;
        let read = StoredRead {
            key,
            ..StoredRead::from_map(redacted.map()).unwrap_or_default()
        };
        let answer = read.answer.clone();
        self.reads.push(read);
        self.reads_of_node += 1;
        Ok(answer)
    }

    /// Reads the answer that the source run recorded; fails if it is gone or belongs to another
    /// question.
    async fn recorded_answer(
        &self,
        source: &str,
        read_key: &str,
        request: &Value,
    ) -> Result<Value, Halt> {
        let gone = || {
            Halt::fault(
                "replay_memory_snapshot_unavailable",
                "what the run read is not kept any more",
            )
        };
        let key = format!("{source}/{read_key}");
        let record = self
            .engine
            .parts
            .store
            .record(&self.tenant, RecordKind::RunRead, &key)
            .await?
            .ok_or_else(gone)?;
        // The record holds the redacted question, so redact this one before comparing.
        let question = StoredRead {
            asked: request.clone(),
            ..StoredRead::default()
        };
        let admission = self.rules.admission(&self.policy, record.at);
        let question = self
            .engine
            .redact_body(&self.tenant, &admission, question.to_map())
            .await?;
        let question = StoredRead::from_map(question.map()).unwrap_or_default();
        let read = StoredRead::read(&record).unwrap_or_default();
        if read.asked != question.asked {
            return Err(Halt::fault(
                "replay_diverged",
                "the replay asks for something that the run did not read",
            ));
        }
        Ok(read.answer)
    }

    /// Lists entries at the run's snapshot.
    async fn list_now(&self, memory_ref: &str, args: &ListArgs) -> Result<Vec<Value>, Halt> {
        let Some(scope) = self.scope(memory_ref) else {
            return Ok(Vec::new());
        };
        let at = self.read_at(self.now().await?);
        let filter = Filter {
            tags: args.tag.iter().cloned().collect(),
            ..Filter::default()
        };
        let page = Page {
            limit: self.policy.list_limit(args.limit),
            after: None,
        };
        let entries = self
            .engine
            .parts
            .store
            .list(&scope, &filter, &page, &at)
            .await?;
        let admission = self.rules.admission(&self.policy, at.instant());
        let bytes = |entry: &Entry| cpu::review_bytes(&admission, entry);
        let review = |entry| Ok::<_, EngineError>(admission.redact_for_reader(entry));
        let cpu = self.engine.cpu();
        let entries = cpu.each(&self.tenant, entries, bytes, review).await?;
        Ok(within_budget(entries, args.token_budget)
            .iter()
            .map(entry_document)
            .collect())
    }

    /// Reads an entry at the run's snapshot.
    async fn get_now(&self, memory_ref: &str, id: &str) -> Result<Value, Halt> {
        let (Some(scope), Some(id)) = (self.scope(memory_ref), EntryId::parse(id)) else {
            return Ok(Value::Null);
        };
        let at = self.read_at(self.now().await?);
        let found = self.engine.parts.store.get(&scope, &id, &at).await?;
        let admission = self.rules.admission(&self.policy, at.instant());
        Ok(found.map_or(Value::Null, |entry| {
            entry_document(&admission.redact_for_reader(entry))
        }))
    }

    /// Reads a version of a workspace file.
    async fn file_now(&self, path: &str) -> Result<Value, Halt> {
        let Some(file) = self
            .run
            .state
            .workspace
            .iter()
            .find(|file| file.path == path)
        else {
            return Ok(Value::Null);
        };
        let key = crate::workspace::version_key(path, file.version);
        let version = self
            .engine
            .parts
            .store
            .record(&self.tenant, RecordKind::FileVersion, &key)
            .await?;
        let gone = || {
            Halt::fault(
                "workspace_version_gone",
                "the version of the file that the run began with is not kept any more",
            )
        };
        let record = version.ok_or_else(gone)?;
        let file = StoredFile::read(&record).unwrap_or_default();
        Ok(Value::from(file.content))
    }

    /// The state of a sub-run, once it has ended.
    pub async fn child_state(&self, child: &RunId) -> Result<Value, Halt> {
        let (run, _) = self
            .engine
            .load_run(&self.tenant, child)
            .await?
            .ok_or(EngineError::NotFound("run"))?;
        if !run.state.status.is_terminal() {
            return Err(Halt::Superseded); // another process executes it, and with it the parent run
        }
        Ok(
            json!({"runId": child.as_str(), "status": run.state.status.as_str(), "variables": run.state.variables}),
        )
    }
}

/// The longest prefix of a list that fits the budget, without entries that would not fit alone.
fn within_budget(entries: Vec<Entry>, budget: Option<u64>) -> Vec<Entry> {
    let Some(budget) = budget else { return entries };
    let sized = entries
        .into_iter()
        .map(|entry| (O200k::count(&entry.content) as u64, entry));
    let mut left = budget;
    let fits = |(size, _): &(u64, Entry)| {
        let fits = *size <= left;
        left -= if fits { *size } else { 0 };
        fits
    };
    sized
        .filter(|(size, _)| *size <= budget)
        .take_while(fits)
        .map(|(_, entry)| entry)
        .collect()
}

/// An entry in the JSON of the protocol.
pub(super) fn entry_document(entry: &Entry) -> Value {
    let mut document = json!({
        "id": entry.id.as_str(),
        "content": entry.content,
        "tags": entry.tags,
        "createdAt": entry.created_at.rfc3339(),
    });
    if let Some(end) = entry.expires_at {
        document["expiresAt"] = Value::from(end.rfc3339());
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::entry::RevisionRange;
    use remem_core::{MemoryRef, Revision, Tier, Timestamp, Typology};

    /// An entry with this number of words, each of them one token.
    fn entry(words: usize) -> Entry {
        Entry {
            id: EntryId::parse("e").unwrap(),
            memory_ref: MemoryRef::parse("m").unwrap(),
            content: vec!["word"; words].join(" "),
            tags: vec![],
            metadata: None,
            created_at: Timestamp(0),
            expires_at: None,
            tier: Tier::default(),
            typology: Typology::default(),
            facets: remem_core::Facets::default(),
            visible: RevisionRange {
                from: Revision(1),
                to: None,
            },
            redaction_fingerprint: 0,
        }
    }

    #[test]
    fn read_results_are_cut_to_the_token_budget() {
        let within = |sizes: &[usize], budget| {
            let kept = within_budget(sizes.iter().map(|&words| entry(words)).collect(), budget);
            kept.iter()
                .map(|entry| entry.content.split(' ').count())
                .collect::<Vec<_>>()
        };
        assert_eq!(within(&[4, 5, 1], Some(10)), [4, 5, 1], "exactly enough");
        assert_eq!(within(&[4, 5, 1], Some(9)), [4, 5]);
        assert_eq!(
            within(&[11, 4, 5], Some(10)),
            [4, 5],
            "what would not fit alone is passed over"
        );
        assert_eq!(
            within(&[4, 7, 1], Some(10)),
            [4],
            "a prefix: nothing after what did not fit any more"
        );
        assert_eq!(within(&[4, 7], None), [4, 7]);
    }
}
