//! Parameters of the MCP tools: the requests of the wire, each with the name of its memory.

use remem_core::strict_json;
use remem_wire::Metadata;
use remem_wire::commitment::DeliveryDoc;
use remem_wire::time::Instant;
use remem_wire::workshop::{SourceName, TierName, TypologyName};
use rmcp::handler::server::common::FromContextPart;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::ErrorData;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// The prefix of rmcp's message about arguments that cannot be read.
pub(super) const MALFORMED_PREFIX: &str = "failed to deserialize parameters: ";

/// The arguments of a tool. An object in them must be a JSON object: serde alone would also read a
/// struct from an array of its fields.
pub struct Parameters<P>(pub P);

impl<P: JsonSchema> JsonSchema for Parameters<P> {
    fn schema_name() -> Cow<'static, str> {
        P::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        P::json_schema(generator)
    }
}

impl<S, P: DeserializeOwned> FromContextPart<ToolCallContext<'_, S>> for Parameters<P> {
    fn from_context_part(context: &mut ToolCallContext<'_, S>) -> Result<Self, ErrorData> {
        let arguments = context.arguments.take().unwrap_or_default();
        let value = strict_json::from_value(Value::Object(arguments));
        let malformed =
            |error| ErrorData::invalid_params(format!("{MALFORMED_PREFIX}{error}"), None);
        Ok(Parameters(value.map_err(malformed)?))
    }
}

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
    /// Parameters of the tool `memory_put`.
    PutParams {
        /// The text to remember, up to 64 KiB.
        content: String,
        /// Labels to filter by later.
        tags: Option<Vec<String>>,
        /// Expiry time (RFC 3339).
        expires_at: Option<Instant>,
        /// A JSON object stored with the text.
        metadata: Option<Metadata>,
        /// Subject (a person, a customer number), used later by forget.
        subjects: Option<Vec<String>>,
        /// Its lifetime: interaction, session or persistent; set by the memory if absent.
        tier: Option<TierName>,
        /// Its kind: episodic (what happened), semantic (what is true) or procedural (how it is
        /// done); set by the memory if absent.
        typology: Option<TypologyName>,
        /// The chat thread that it was said in; without a tier it ends with the thread.
        interaction: Option<String>,
        /// The world that the text is about; the text must not restate a rule of the world.
        world: Option<String>,
        /// The question that it answers: a later answer to the same question replaces it.
        slot: Option<String>,
        /// The source of the text: model (if absent) or untrusted (a page, a document, an unknown
        /// person); tool, action or operator where the key may vouch for it.
        source: Option<SourceName>,
        /// The place where it was read, such as a URL: forgetting that place later erases the
        /// entry.
        source_ref: Option<String>,
        /// Makes a repetition of this call safe.
        idempotency_key: Option<String>,
    }
);

params!(
    /// Parameters of the tool `memory_get`.
    GetParams {
        /// The id of the entry.
        id: String,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
    }
);

params!(
    /// Parameters of the tool `memory_list`.
    ListParams {
        /// Number of entries in a page; 100 if absent.
        limit: Option<u32>,
        /// Only entries that carry this tag.
        tag: Option<String>,
        /// nextCursor of the page before.
        cursor: Option<String>,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
        /// Only what was true at this instant, rather than now.
        as_of: Option<Instant>,
        /// Only entries of this tier: interaction, session or persistent.
        tier: Option<TierName>,
        /// Only entries of this kind: episodic, semantic or procedural.
        typology: Option<TypologyName>,
        /// Only entries of this chat thread.
        interaction: Option<String>,
        /// Only entries of this session.
        session: Option<String>,
    }
);

params!(
    /// Parameters of the tool `memory_search`.
    SearchParams {
        /// The text to look for: a question, or words.
        query: String,
        /// Maximum number of hits; 10 if absent.
        limit: Option<u32>,
        /// Only entries that carry all of these tags.
        tags: Option<Vec<String>>,
        /// Only entries written at or after this instant.
        created_from: Option<Instant>,
        /// Only entries written before this instant.
        created_to: Option<Instant>,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
        /// Only what was true at this instant, rather than now.
        as_of: Option<Instant>,
        /// Only entries of this tier: interaction, session or persistent.
        tier: Option<TierName>,
        /// Only entries of this kind: episodic, semantic or procedural.
        typology: Option<TypologyName>,
        /// Only entries of this chat thread.
        interaction: Option<String>,
        /// Only entries of this session.
        session: Option<String>,
        /// Search mode: hybrid (keyword and meaning, the default), lexical or semantic.
        mode: Option<String>,
        /// How to treat dates in the query: filter (the default), prefer or ignore.
        time: Option<String>,
        /// Whether each hit lists the parts of its score.
        explain: Option<bool>,
        /// Number of entries to show before and after each hit, at most 10.
        neighbours: Option<u32>,
        /// Maximum number of hits from one source.
        per_source: Option<u32>,
        /// Whether to return no hits rather than probably irrelevant ones.
        abstain: Option<bool>,
    }
);

params!(
    /// Parameters of the tool `memory_recall`.
    RecallParams {
        /// The question to be answered.
        query: String,
        /// Maximum number of tokens of the text; 800 if absent.
        token_budget: Option<u64>,
        /// Whether the text begins with procedures and current answers of slots; true if absent.
        standing: Option<bool>,
        /// Maximum number of hits; 10 if absent.
        limit: Option<u32>,
        /// Whether probably irrelevant hits are left out; true if absent.
        abstain: Option<bool>,
        /// Search mode: hybrid (keyword and meaning, the default), lexical or semantic.
        mode: Option<String>,
        /// How to treat dates in the query: filter (the default), prefer or ignore.
        time: Option<String>,
        /// Only entries that carry all of these tags.
        tags: Option<Vec<String>>,
        /// Only entries written at or after this instant.
        created_from: Option<Instant>,
        /// Only entries written before this instant.
        created_to: Option<Instant>,
        /// Revision token of a write that must be visible.
        at_least: Option<String>,
        /// Only what was true at this instant, rather than now.
        as_of: Option<Instant>,
        /// Only entries of this tier: interaction, session or persistent.
        tier: Option<TierName>,
        /// Only entries of this kind: episodic, semantic or procedural.
        typology: Option<TypologyName>,
        /// Only entries of this chat thread.
        interaction: Option<String>,
        /// Only entries of this session.
        session: Option<String>,
    }
);

params!(
    /// Parameters of the tool `memory_delete`.
    DeleteParams {
        /// The id of the entry.
        id: String,
        /// Makes a repetition of this call safe.
        idempotency_key: Option<String>,
    }
);

params!(
    /// Parameters of the tool `memory_stats`.
    StatsParams {}
);

/// Parameters of the tool `commitments_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentsListParams {
    /// Only commitments of this memory.
    pub memory_ref: Option<String>,
    /// Only commitments in this state: pending, armed, done, cancelled or expired.
    pub state: Option<String>,
    /// nextCursor of the page before.
    pub cursor: Option<String>,
    /// Number of commitments in a page; 100 if absent.
    pub limit: Option<u32>,
}

params!(
    /// Parameters of the tool `commitment_create`.
    CreateCommitmentParams {
        /// The text of the reminder; it becomes an entry of the memory.
        text: String,
        /// Fire once, at this instant.
        at: Option<Instant>,
        /// Fire repeatedly at this interval, an ISO 8601 duration such as P1D.
        every: Option<String>,
        /// Fire by this cron line: minute, hour, day of the month, month, day of the week.
        cron: Option<String>,
        /// Fire when this becomes true: a short statement such as "the invoice has cleared".
        predicate: Option<String>,
        /// The time zone of the times, such as Europe/Berlin; the memory's if absent.
        zone: Option<String>,
        /// The workflow or agent that is started when it fires; without one, only an event reports
        /// it.
        delivery: Option<DeliveryDoc>,
        /// Subject, used later by forget.
        subjects: Option<Vec<String>>,
        /// Makes a repetition of this call safe.
        idempotency_key: Option<String>,
    }
);

/// Parameters of the tools `commitment_confirm`, `commitment_cancel` and `commitment_explain`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentIdParams {
    /// The id of the commitment, as commitments_list returns it.
    pub commitment_id: String,
}

/// Parameters of the tool `commitment_snooze`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnoozeParams {
    /// The id of the commitment, as commitments_list returns it.
    pub commitment_id: String,
    /// The instant to fire at instead.
    pub until: Instant,
}

params!(
    /// Parameters of the tool `observe`.
    ObserveParams {
        /// The statement, such as "the invoice has cleared".
        key: String,
        /// Whether the statement is true.
        value: bool,
    }
);

params!(
    /// Parameters of the tool `memory_history`.
    HistoryParams {
        /// The slot (the question), as the facets of an entry name it.
        slot: String,
        /// The session that the slot belongs to, if it does not outlast its session.
        session: Option<String>,
    }
);

params!(
    /// Parameters of the tool `session_close`.
    CloseParams {
        /// The chat thread to close, rather than the whole session.
        interaction: Option<String>,
    }
);

params!(
    /// Parameters of the tool `memory_link_action`.
    LinkParams {
        /// The entry that the action rests on.
        id: String,
        /// The kind of action, such as gate.accept.
        action: String,
        /// The action's id in the system that it was done in, such as the number of a change.
        reference: String,
    }
);
