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
    /// Secrets in the vault of a tenant.
    pub secrets_max: usize,
    /// Characters of a secret.
    pub secret_chars_max: usize,
    /// Earlier values of a secret that are still kept out of memory.
    pub secret_former_max: usize,
    /// Entries or records that one step of the rescan looks at in one transaction.
    pub rescan_batch_max: u32,
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
            secrets_max: 200,
            secret_chars_max: 8_192,
            secret_former_max: 20,
            rescan_batch_max: 100,
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
