//! Every limit and rule of a tenant as plain data. Each bound is named `*_max`; no other code holds
//! a number that a caller can exceed.

use crate::redact::ShapePolicy;

/// The table of limits: one row each with its name, its type and its default.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr,)*) => {
        /// The limits and rules of one tenant.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Policy {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Policy {
            fn default() -> Policy {
                Policy { $($name: $default,)* }
            }
        }
    };
}

limits! {
    /// Bytes of an entry's text after redaction.
    content_bytes_max: usize = 65_536,
    /// Tags of one entry.
    tags_max: usize = 64,
    /// Characters of one tag.
    tag_chars_max: usize = 256,
    /// Bytes of an entry's metadata as JSON.
    metadata_bytes_max: usize = 16_384,
    /// Levels of nesting in metadata.
    metadata_depth_max: usize = 8,
    /// Bytes of text on one page of an answer; a page holds one item at least.
    page_bytes_max: usize = 4 * 1024 * 1024,
    /// Entries of one batch or import request.
    batch_entries_max: usize = 1_000,
    /// Actions that one entry is linked to.
    links_max: usize = 1_000,
    /// Rules of one world. Every new entry of the world is held against all of them.
    world_rules_max: usize = 1_000,
    /// Entries of a list when the caller names no limit.
    list_limit_default: u32 = 100,
    /// The most entries of a list; also the meaning of `limit=0`.
    list_limit_max: u32 = 1_000,
    /// Hits of a search when the caller names no limit.
    search_limit_default: u32 = 10,
    /// The most hits of a search.
    search_limit_max: u32 = 100,
    /// Characters of a search query.
    query_chars_max: usize = 4_096,
    /// Tags in the filter of a list, a search or a recall.
    query_tags_max: usize = 16,
    /// Different words of a query that are looked up.
    query_terms_max: usize = 32,
    /// Events of one page of the feed.
    events_page_max: u32 = 1_000,
    /// Open event streams of one tenant on one node.
    feeds_max: usize = 64,
    /// Characters of an idempotency key.
    idempotency_key_chars_max: usize = 255,
    /// How long an idempotency key is stored, in milliseconds.
    idempotency_retention_ms: i64 = 7 * 24 * 3_600_000,
    /// Bytes of a request body.
    request_bytes_max: usize = 8 * 1024 * 1024,
    /// How long a request body may take to arrive, in milliseconds.
    body_ms_max: u64 = 30_000,
    /// How long a client may leave an answer unread before the connection is closed, in
    /// milliseconds.
    write_ms_max: u64 = 30_000,
    /// How long after its arrival a request may still wait for storage, in milliseconds.
    request_ms_max: u64 = 30_000,
    /// How long a read waits for the revision named by `atLeast`, in milliseconds.
    at_least_wait_ms_max: u64 = 2_000,
    /// Entries that one purge step removes in one transaction.
    purge_batch_max: u32 = 500,
    /// Bytes of a workspace file.
    file_bytes_max: usize = 262_144,
    /// Workspace files of a tenant.
    files_max: usize = 1_000,
    /// Versions of a workspace file that are kept.
    file_versions_max: usize = 20,
    /// Runs that may wait for execution on one node.
    runs_waiting_max: usize = 10_000,
    /// Runs that one node executes at the same time.
    runs_at_once_max: usize = 256,
    /// Bytes of a run's inputs, metadata and settings, each.
    run_input_bytes_max: usize = 65_536,
    /// Bytes of one recorded read of a run.
    run_read_bytes_max: usize = 4 * 1024 * 1024,
    /// Levels of runs that start runs.
    run_depth_max: usize = 4,
    /// How long a run may take, in milliseconds.
    run_duration_ms_max: i64 = 3_600_000,
    /// How long a run may make no progress before another node resumes it, in milliseconds.
    run_stall_ms: i64 = 5_000,
    /// How long an ended run is kept, with everything it read, in milliseconds.
    run_retention_ms: i64 = 30 * 24 * 3_600_000,
    /// Workflow definitions of a tenant.
    workflows_max: u32 = 200,
    /// Bytes of a workflow definition.
    workflow_bytes_max: usize = 65_536,
    /// Agents that a tenant installs.
    agents_max: usize = 200,
    /// Bytes of an agent's manifest, its prompt included, as JSON.
    agent_bytes_max: usize = 131_072,
    /// Webhooks of a tenant.
    webhooks_max: usize = 32,
    /// Characters of a webhook's URL.
    webhook_url_chars_max: usize = 2_048,
    /// How often delivery of an event to a webhook is tried before the event becomes a dead letter.
    webhook_attempts_max: u32 = 8,
    /// How long after the first failure the second attempt is made, in milliseconds; each later
    /// wait is twice as long.
    webhook_retry_ms: i64 = 30_000,
    /// Events that one run of the delivery pass sends to one webhook.
    webhook_events_max: u32 = 200,
    /// Dead letters of a webhook that are kept.
    dead_letters_max: usize = 100,
    /// Whether webhooks may use plain HTTP and addresses of this machine and its network: for tests
    /// and closed networks.
    webhooks_private: bool = false,
    /// Secrets in the vault of a tenant.
    secrets_max: usize = 200,
    /// Characters of a secret.
    secret_chars_max: usize = 8_192,
    /// Bytes of all secrets of a tenant with their earlier values. The search structure that is
    /// built from them takes many times as much memory, and is rebuilt with every change.
    secret_bytes_max: usize = 512 * 1024,
    /// Earlier values of a secret that are still redacted.
    secret_former_max: usize = 20,
    /// Entries or records that one step of the rescan examines in one transaction.
    rescan_batch_max: u32 = 100,
    /// Jobs of one pass of a tenant that have not ended.
    jobs_active_max: usize = 1_000,
    /// Ended jobs of a tenant that are kept.
    jobs_ended_max: usize = 1_000,
    /// How long an ended job is kept, in milliseconds.
    job_retention_ms: i64 = 30 * 24 * 3_600_000,
    /// Schedules of a tenant.
    schedules_max: usize = 100,
    /// Bytes of a prompt to a model.
    model_prompt_bytes_max: usize = 131_072,
    /// Bytes of a model's answer.
    model_answer_bytes_max: usize = 65_536,
    /// Entries that one compaction or distillation reads.
    distill_entries_max: usize = 100_000,
    /// Tokens that one distillation may read and write.
    distill_tokens_max: u64 = 100_000,
    /// How long archives are kept, in milliseconds.
    archive_retention_ms: i64 = 365 * 24 * 3_600_000,
    /// Entries of a subject that are erased in one transaction, and as many of those made from them.
    erasure_entries_max: usize = 500,
    /// Entries and archives that one record of an erasure report names, and that the dry run of a
    /// forget lists; a longer report names them on pages.
    erasure_named_max: usize = 10_000,
    /// How long a forget keeps its caller waiting before a job goes on with it, in milliseconds.
    forget_wait_ms_max: u64 = 5_000,
    /// How far ahead a commitment or an automation may lie, in milliseconds.
    horizon_ms_max: i64 = 366 * 24 * 3_600_000,
    /// How long a commitment waits to be confirmed, in milliseconds.
    commitment_confirm_ms: i64 = 14 * 24 * 3_600_000,
    /// How long a commitment waits for its predicate, in milliseconds.
    commitment_wait_ms: i64 = 366 * 24 * 3_600_000,
    /// How long a commitment is kept after its end, in milliseconds; likewise the note that it
    /// fired.
    commitment_retention_ms: i64 = 90 * 24 * 3_600_000,
    /// Unfinished runs of one memory that commitments have started; further ones wait.
    commitment_runs_max: usize = 1_000,
    /// Commitments that one run of the pass fires.
    fires_max: u32 = 2_000,
    /// Heartbeats of a tenant.
    heartbeats_max: usize = 100,
    /// The shortest time between two evaluations of a heartbeat, in milliseconds.
    heartbeat_every_ms_min: i64 = 30_000,
    /// How long one evaluation may take, in milliseconds.
    heartbeat_runtime_ms_max: u64 = 1_000,
    /// Proposals of a tenant that wait for review.
    proposals_open_max: usize = 500,
    /// Proposals of a tenant in any state.
    proposals_max: usize = 10_000,
    /// Revisions of a proposal.
    proposal_revisions_max: u64 = 100,
    /// Characters of a proposal's title.
    proposal_title_chars_max: usize = 200,
    /// Characters of a proposal's rationale, and of a note on a decision.
    proposal_text_chars_max: usize = 4_000,
    /// Prompt templates of a tenant.
    prompts_max: usize = 200,
    /// Automations of a tenant.
    automations_max: usize = 200,
    /// Tools that one trace of a run lists.
    trace_tools_max: usize = 64,
    /// Stored traces of tool calls of a tenant.
    traces_max: usize = 10_000,
    /// How long a trace of tool calls is kept, in milliseconds.
    trace_retention_ms: i64 = 30 * 24 * 3_600_000,
    /// The treatment of text that is shaped like a secret.
    shapes: ShapePolicy = ShapePolicy::Redact,
}

impl Policy {
    /// The number of entries that a list may return: no number means the default, 0 the maximum,
    /// and n means n up to the maximum.
    #[must_use]
    pub fn list_limit(&self, requested: Option<u32>) -> u32 {
        match requested {
            None => self.list_limit_default,
            Some(0) => self.list_limit_max,
            Some(n) => n.min(self.list_limit_max),
        }
    }

    /// The wait after that many failed attempts, in milliseconds. Eight attempts take about an
    /// hour.
    #[must_use]
    pub fn webhook_wait_ms(&self, attempts: u32) -> i64 {
        self.webhook_retry_ms
            .saturating_mul(1 << attempts.saturating_sub(1).min(20))
    }

    /// The number of hits that a search may return, by the same rule.
    #[must_use]
    pub fn search_limit(&self, requested: Option<u32>) -> u32 {
        match requested {
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
    fn eight_webhook_attempts_take_about_an_hour() {
        let p = Policy::default();
        let waits: Vec<i64> = (1..p.webhook_attempts_max)
            .map(|attempts| p.webhook_wait_ms(attempts) / 1_000)
            .collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920]);
        assert_eq!(waits.iter().sum::<i64>() / 60, 63);
        assert!(p.webhook_wait_ms(u32::MAX) > 0);
    }

    #[test]
    fn list_and_search_limits_are_defaulted_and_clamped() {
        let p = Policy::default();
        for (requested, given) in [
            (None, 100),
            (Some(0), 1_000),
            (Some(1), 1),
            (Some(1_000), 1_000),
            (Some(u32::MAX), 1_000),
        ] {
            assert_eq!(p.list_limit(requested), given, "{requested:?}");
        }
        for (requested, given) in [(None, 10), (Some(0), 100), (Some(7), 7), (Some(101), 100)] {
            assert_eq!(p.search_limit(requested), given, "{requested:?}");
        }
    }
}
