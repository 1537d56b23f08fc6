//! Parameters of the MCP tools: the wire's requests with the memory's name beside them.

use remem_wire::Metadata;
use remem_wire::time::Instant;
use schemars::JsonSchema;
use serde::Deserialize;

macro_rules! params {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name {
            /// Name of the memory, 1 to 256 characters.
            pub memory_ref: String,
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
}

params!(
    /// Parameters of `memory_put`.
    PutParams {
        /// The text to remember, up to 64 KiB.
        content: String,
        /// Labels to filter by later.
        tags: Option<Vec<String>>,
        /// From when it must not surface any more.
        expires_at: Option<Instant>,
        /// A JSON object kept beside the text.
        metadata: Option<Metadata>,
        /// Whom or what it is about (a person, a customer number), so that it can be forgotten by that later.
        subjects: Option<Vec<String>>,
        /// Makes a repetition of this call safe.
        idempotency_key: Option<String>,
    }
);

params!(
    /// Parameters of `memory_get`.
    GetParams {
        /// The entry.
        id: String,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
    }
);

params!(
    /// Parameters of `memory_list`.
    ListParams {
        /// How many; 100 if absent.
        limit: Option<u32>,
        /// Only entries that carry this tag.
        tag: Option<String>,
        /// nextCursor of the page before.
        cursor: Option<String>,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
    }
);

params!(
    /// Parameters of `memory_search`.
    SearchParams {
        /// Words to look for.
        query: String,
        /// How many hits; 10 if absent.
        limit: Option<u32>,
        /// Only entries that carry all of these tags.
        tags: Option<Vec<String>>,
        /// Only entries written at or after this instant.
        created_from: Option<Instant>,
        /// Only entries written before this instant.
        created_to: Option<Instant>,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
    }
);

params!(
    /// Parameters of `memory_delete`.
    DeleteParams {
        /// The entry.
        id: String,
        /// Makes a repetition of this call safe.
        idempotency_key: Option<String>,
    }
);

params!(
    /// Parameters of `memory_stats`.
    StatsParams {}
);
