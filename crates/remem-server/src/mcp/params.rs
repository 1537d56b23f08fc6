//! Parameters of the MCP tools: the wire's requests with the memory's name beside them.

use remem_core::objects;
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

/// What the message about arguments that cannot be read begins with.
pub(super) const MALFORMED: &str = "failed to deserialize parameters: ";

/// The arguments of a tool, read so that an object must be an object.
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
        let value = objects::from_value(Value::Object(arguments));
        let malformed = |error| ErrorData::invalid_params(format!("{MALFORMED}{error}"), None);
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
        /// Whom or what it is about (a person, a customer number), so that it can be forgotten by
        /// that later.
        subjects: Option<Vec<String>>,
        /// How long it lasts: interaction, session or persistent; the memory decides if absent.
        tier: Option<TierName>,
        /// What kind it is: episodic (what happened), semantic (what is true), procedural (how it
        /// is done); the memory decides if absent.
        typology: Option<TypologyName>,
        /// The chat thread that it was said in; without a tier it ends with that.
        interaction: Option<String>,
        /// The world that a statement speaks of; its rules may not be restated.
        world: Option<String>,
        /// The question that it answers: another answer takes its place.
        slot: Option<String>,
        /// Who says so: model (if absent) or untrusted (a page, a document, somebody unknown); tool,
        /// action or operator where the key may vouch for it.
        source: Option<SourceName>,
        /// Where it was read, such as a URL: forgetting that place later takes it away.
        source_ref: Option<String>,
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
        /// What was true at this instant, rather than now.
        as_of: Option<Instant>,
        /// Only of this tier: interaction, session or persistent.
        tier: Option<TierName>,
        /// Only of this kind: episodic, semantic or procedural.
        typology: Option<TypologyName>,
        /// Only of this chat thread.
        interaction: Option<String>,
        /// Only of this session.
        session: Option<String>,
    }
);

params!(
    /// Parameters of `memory_search`.
    SearchParams {
        /// What to look for: a question, or words.
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
        /// What was true at this instant, rather than now.
        as_of: Option<Instant>,
        /// Only of this tier: interaction, session or persistent.
        tier: Option<TierName>,
        /// Only of this kind: episodic, semantic or procedural.
        typology: Option<TypologyName>,
        /// Only of this chat thread.
        interaction: Option<String>,
        /// Only of this session.
        session: Option<String>,
        /// By what to find: hybrid (words and meaning, if absent), lexical or semantic.
        mode: Option<String>,
        /// How to treat dates in the query: filter (the default), prefer or ignore.
        time: Option<String>,
        /// Whether each hit tells what its score is made of.
        explain: Option<bool>,
        /// Entries to show before and after each hit, 10 at the most.
        neighbours: Option<u32>,
        /// Hits of one source at the most.
        per_source: Option<u32>,
        /// Answer no hits rather than what is probably irrelevant.
        abstain: Option<bool>,
    }
);

params!(
    /// Parameters of `memory_recall`.
    RecallParams {
        /// The question that is to be answered.
        query: String,
        /// Tokens that the block may have; 800 if absent.
        token_budget: Option<u64>,
        /// Whether procedures and answers that hold open the block; true if absent.
        standing: Option<bool>,
        /// How many hits at the most; 10 if absent.
        limit: Option<u32>,
        /// Whether hits are left out that are probably irrelevant; true if absent.
        abstain: Option<bool>,
        /// By what to find: hybrid (words and meaning, if absent), lexical or semantic.
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
        /// What was true at this instant, rather than now.
        as_of: Option<Instant>,
        /// Only of this tier: interaction, session or persistent.
        tier: Option<TierName>,
        /// Only of this kind: episodic, semantic or procedural.
        typology: Option<TypologyName>,
        /// Only of this chat thread.
        interaction: Option<String>,
        /// Only of this session.
        session: Option<String>,
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

/// Parameters of `commitments_list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentsListParams {
    /// Only of this memory.
    pub memory_ref: Option<String>,
    /// Only in this state: pending, armed, done, cancelled or expired.
    pub state: Option<String>,
    /// nextCursor of the page before.
    pub cursor: Option<String>,
    /// How many; 100 if absent.
    pub limit: Option<u32>,
}

params!(
    /// Parameters of `commitment_create`.
    CreateCommitmentParams {
        /// What to be reminded of; it becomes an entry of the memory.
        text: String,
        /// At this instant, once.
        at: Option<Instant>,
        /// Again and again after this distance, an ISO 8601 duration such as P1D.
        every: Option<String>,
        /// As this cron line says: minute, hour, day of the month, month, day of the week.
        cron: Option<String>,
        /// When this becomes true: a short statement such as "the invoice has cleared".
        predicate: Option<String>,
        /// Time zone by whose clocks it goes, such as Europe/Berlin; the memory's if absent.
        zone: Option<String>,
        /// The workflow or agent that is started when it fires; without one an event tells of it.
        delivery: Option<DeliveryDoc>,
        /// Whom or what it is about, so that it can be forgotten by that later.
        subjects: Option<Vec<String>>,
        /// Makes a repetition of this call safe.
        idempotency_key: Option<String>,
    }
);

/// Parameters of `commitment_confirm`, `commitment_cancel` and `commitment_explain`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommitmentIdParams {
    /// The commitment's id, as commitments_list gives it.
    pub commitment_id: String,
}

/// Parameters of `commitment_snooze`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnoozeParams {
    /// The commitment's id, as commitments_list gives it.
    pub commitment_id: String,
    /// When it is to fire instead.
    pub until: Instant,
}

params!(
    /// Parameters of `observe`.
    ObserveParams {
        /// What can be so, as a short statement.
        key: String,
        /// Whether it is so.
        value: bool,
    }
);

params!(
    /// Parameters of `memory_history`.
    HistoryParams {
        /// The question, as the facets of an entry name it (slot).
        slot: String,
        /// The question as it was asked in this session, rather than for good.
        session: Option<String>,
    }
);

params!(
    /// Parameters of `session_close`.
    CloseParams {
        /// Only this chat thread, rather than the whole session.
        interaction: Option<String>,
    }
);

params!(
    /// Parameters of `memory_link_action`.
    LinkParams {
        /// The entry that the action rests on.
        id: String,
        /// What was done, such as gate.accept.
        action: String,
        /// Its name where it was done, such as the number of a change.
        reference: String,
    }
);
