//! Every limit and rule as plain data. Each bound is named `*_max`; nothing else in the code holds a number that a
//! caller can run into.

use crate::redact::ShapePolicy;

/// What one tenant may do and how much of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Bytes of an entry's text after redaction.
    pub content_bytes_max: usize,
    /// Tags of one entry.
    pub tags_max: usize,
    /// Characters of one tag.
    pub tag_chars_max: usize,
    /// Bytes of an entry's metadata as JSON.
    pub metadata_bytes_max: usize,
    /// Levels of nesting in metadata.
    pub metadata_depth_max: usize,
    /// Entries of one batch or import request.
    pub batch_entries_max: usize,
    /// Entries of a list when the caller names no limit.
    pub list_limit_default: u32,
    /// Entries of a list at the most; also what `limit=0` gives.
    pub list_limit_max: u32,
    /// Hits of a search when the caller names no limit.
    pub search_limit_default: u32,
    /// Hits of a search at the most.
    pub search_limit_max: u32,
    /// Characters of a search query.
    pub query_chars_max: usize,
    /// Different words of a query that are looked up.
    pub query_terms_max: usize,
    /// Events of one page of the feed.
    pub events_page_max: u32,
    /// Open event streams of one tenant on one node.
    pub feeds_max: usize,
    /// Characters of an idempotency key.
    pub idempotency_key_chars_max: usize,
    /// How long a key is remembered, in milliseconds.
    pub idempotency_retention_ms: i64,
    /// Bytes of a request body.
    pub request_bytes_max: usize,
    /// How long a read waits for the revision named by `atLeast`, in milliseconds.
    pub at_least_wait_ms_max: u64,
    /// Entries that one purge step removes in one transaction.
    pub purge_batch_max: u32,
    /// Bytes of a workspace file.
    pub file_bytes_max: usize,
    /// Workspace files of a tenant.
    pub files_max: usize,
    /// Versions of a workspace file that are kept.
    pub file_versions_max: usize,
    /// Runs that may wait for their turn on one node.
    pub runs_waiting_max: usize,
    /// Runs that one node carries on at the same time.
    pub runs_at_once_max: usize,
    /// Bytes of a run's inputs, metadata and settings, each.
    pub run_input_bytes_max: usize,
    /// Bytes of one recorded read of a run.
    pub run_read_bytes_max: usize,
    /// How deep runs may start runs.
    pub run_depth_max: usize,
    /// How long a run may take, in milliseconds.
    pub run_duration_ms_max: i64,
    /// How long a run may stand still before another node carries it on, in milliseconds.
    pub run_stall_ms: i64,
    /// How long an ended run is kept, with what it read, in milliseconds.
    pub run_retention_ms: i64,
    /// Workflow definitions of a tenant.
    pub workflows_max: u32,
    /// Bytes of a workflow definition.
    pub workflow_bytes_max: usize,
    /// Agents that a tenant installs.
    pub agents_max: usize,
    /// Bytes of an agent's manifest, its prompt included, as JSON.
    pub agent_bytes_max: usize,
    /// Webhooks of a tenant.
    pub webhooks_max: usize,
    /// Characters of a webhook's URL.
    pub webhook_url_chars_max: usize,
    /// How often an event is tried at a webhook before it becomes a dead letter.
    pub webhook_attempts_max: u32,
    /// How long after the first failure the second attempt is made, in milliseconds; each later wait is twice as long.
    pub webhook_retry_ms: i64,
    /// Events that one activation sends to one webhook.
    pub webhook_events_max: u32,
    /// Dead letters of a webhook that are kept.
    pub dead_letters_max: usize,
    /// Whether webhooks may use plain HTTP and addresses of this machine and its network: for tests and closed networks.
    pub webhooks_private: bool,
    /// Secrets in the vault of a tenant.
    pub secrets_max: usize,
    /// Characters of a secret.
    pub secret_chars_max: usize,
    /// Earlier values of a secret that are still kept out of memory.
    pub secret_former_max: usize,
    /// Entries or records that one step of the rescan looks at in one transaction.
    pub rescan_batch_max: u32,
    /// Jobs of one pass of a tenant that have not ended.
    pub jobs_active_max: usize,
    /// Jobs of a tenant that have ended and are kept.
    pub jobs_ended_max: usize,
    /// How long an ended job is kept, in milliseconds.
    pub job_retention_ms: i64,
    /// Schedules of a tenant.
    pub schedules_max: usize,
    /// Bytes of what a model is asked.
    pub model_prompt_bytes_max: usize,
    /// Bytes of what a model answers.
    pub model_answer_bytes_max: usize,
    /// Entries that one compaction or distillation reads.
    pub distill_entries_max: usize,
    /// Tokens that one distillation may read and write.
    pub distill_tokens_max: u64,
    /// How long archives are kept, in milliseconds.
    pub archive_retention_ms: i64,
    /// How far ahead a commitment or an automation may lie, in milliseconds.
    pub horizon_ms_max: i64,
    /// How long one waits to be confirmed, in milliseconds.
    pub commitment_confirm_ms: i64,
    /// How long one waits for its predicate, in milliseconds.
    pub commitment_wait_ms: i64,
    /// How long one is kept after its end, in milliseconds; likewise the note that it fired.
    pub commitment_retention_ms: i64,
    /// Runs of one memory that commitments have started and that have not ended; more of them wait.
    pub commitment_runs_max: usize,
    /// Commitments that one activation fires.
    pub fires_max: u32,
    /// Heartbeats of a tenant.
    pub heartbeats_max: usize,
    /// The shortest distance between two looks of a heartbeat, in milliseconds.
    pub heartbeat_every_ms_min: i64,
    /// How long one look may take, in milliseconds.
    pub heartbeat_runtime_ms_max: u64,
    /// Proposals of a tenant that wait for a person.
    pub proposals_open_max: usize,
    /// Proposals of a tenant in whatever state.
    pub proposals_max: usize,
    /// Revisions of a proposal.
    pub proposal_revisions_max: u64,
    /// Characters of a proposal's title.
    pub proposal_title_chars_max: usize,
    /// Characters of a proposal's rationale, and of a note on a decision.
    pub proposal_text_chars_max: usize,
    /// Prompt templates of a tenant.
    pub prompts_max: usize,
    /// Automations of a tenant.
    pub automations_max: usize,
    /// Tools that one trace names.
    pub trace_tools_max: usize,
    /// Traces of tools of a tenant that are kept.
    pub traces_max: usize,
    /// How long a trace of tools is kept, in milliseconds.
    pub trace_retention_ms: i64,
    /// What happens to text that is shaped like a secret.
    pub shapes: ShapePolicy,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            content_bytes_max: 65_536,
            tags_max: 64,
            tag_chars_max: 256,
            metadata_bytes_max: 16_384,
            metadata_depth_max: 8,
            batch_entries_max: 1_000,
            list_limit_default: 100,
            list_limit_max: 1_000,
            search_limit_default: 10,
            search_limit_max: 100,
            query_chars_max: 4_096,
            query_terms_max: 32,
            events_page_max: 1_000,
            feeds_max: 64,
            idempotency_key_chars_max: 255,
            idempotency_retention_ms: 7 * 24 * 3_600_000,
            request_bytes_max: 8 * 1024 * 1024,
            at_least_wait_ms_max: 2_000,
            purge_batch_max: 500,
            file_bytes_max: 262_144,
            files_max: 1_000,
            file_versions_max: 20,
            runs_waiting_max: 10_000,
            runs_at_once_max: 256,
            run_input_bytes_max: 65_536,
            run_read_bytes_max: 4 * 1024 * 1024,
            run_depth_max: 4,
            run_duration_ms_max: 3_600_000,
            run_stall_ms: 5_000,
            run_retention_ms: 30 * 24 * 3_600_000,
            workflows_max: 200,
            workflow_bytes_max: 65_536,
            agents_max: 200,
            agent_bytes_max: 131_072,
            webhooks_max: 32,
            webhook_url_chars_max: 2_048,
            webhook_attempts_max: 8,
            webhook_retry_ms: 30_000,
            webhook_events_max: 200,
            dead_letters_max: 100,
            webhooks_private: false,
            secrets_max: 200,
            secret_chars_max: 8_192,
            secret_former_max: 20,
            rescan_batch_max: 100,
            jobs_active_max: 1_000,
            jobs_ended_max: 1_000,
            job_retention_ms: 30 * 24 * 3_600_000,
            schedules_max: 100,
            model_prompt_bytes_max: 131_072,
            model_answer_bytes_max: 65_536,
            distill_entries_max: 100_000,
            distill_tokens_max: 100_000,
            archive_retention_ms: 365 * 24 * 3_600_000,
            horizon_ms_max: 366 * 24 * 3_600_000,
            commitment_confirm_ms: 14 * 24 * 3_600_000,
            commitment_wait_ms: 366 * 24 * 3_600_000,
            commitment_retention_ms: 90 * 24 * 3_600_000,
            commitment_runs_max: 1_000,
            fires_max: 2_000,
            heartbeats_max: 100,
            heartbeat_every_ms_min: 30_000,
            heartbeat_runtime_ms_max: 1_000,
            proposals_open_max: 500,
            proposals_max: 10_000,
            proposal_revisions_max: 100,
            proposal_title_chars_max: 200,
            proposal_text_chars_max: 4_000,
            prompts_max: 200,
            automations_max: 200,
            trace_tools_max: 64,
            traces_max: 10_000,
            trace_retention_ms: 30 * 24 * 3_600_000,
            shapes: ShapePolicy::Redact,
        }
    }
}

impl Policy {
    /// The number of entries a list may return: absent means the default, 0 means the cap, n means n up to the cap.
    #[must_use]
    pub fn list_limit(&self, asked: Option<u32>) -> u32 {
        match asked {
            None => self.list_limit_default,
            Some(0) => self.list_limit_max,
            Some(n) => n.min(self.list_limit_max),
        }
    }

    /// How long to wait after that many failed attempts, in milliseconds: 8 attempts take about an hour.
    #[must_use]
    pub fn webhook_wait_ms(&self, attempts: u32) -> i64 {
        self.webhook_retry_ms.saturating_mul(1 << attempts.saturating_sub(1).min(20))
    }

    /// The number of hits a search may return, by the same rule.
    #[must_use]
    pub fn search_limit(&self, asked: Option<u32>) -> u32 {
        match asked {
            None => self.search_limit_default,
            Some(0) => self.search_limit_max,
            Some(n) => n.min(self.search_limit_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_attempts_take_about_an_hour() {
        let p = Policy::default();
        let waits: Vec<i64> = (1..p.webhook_attempts_max).map(|attempts| p.webhook_wait_ms(attempts) / 1_000).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920]);
        assert_eq!(waits.iter().sum::<i64>() / 60, 63);
        assert!(p.webhook_wait_ms(u32::MAX) > 0);
    }

    #[test]
    fn limits_follow_the_rule() {
        let p = Policy::default();
        for (asked, given) in [(None, 100), (Some(0), 1_000), (Some(1), 1), (Some(1_000), 1_000), (Some(u32::MAX), 1_000)] {
            assert_eq!(p.list_limit(asked), given, "{asked:?}");
        }
        for (asked, given) in [(None, 10), (Some(0), 100), (Some(7), 7), (Some(101), 100)] {
            assert_eq!(p.search_limit(asked), given, "{asked:?}");
        }
    }
}
