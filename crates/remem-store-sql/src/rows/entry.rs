//! The columns of `entry`, and the rows and entries that are read from them.

use super::columns::{Column, Value, bytes, content, number, pick, text};
use crate::stored::content_hash;
use remem_core::entry::{Facets, RevisionRange};
use remem_core::ledger::{EntryChange, EntryRow, EntryState, EntryText, RowKey};
use remem_core::{
    Entry, EntryId, Evidence, InteractionId, MemoryRef, Revision, SessionId, Timestamp, Trust,
    Typology, WorldId,
};
use remem_store::{FoundEntry, RowCursor, StoreError, WholeEntry};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

const UNREADABLE: StoreError = StoreError::Damaged("an entry cannot be read");
const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

/// SQL condition on `e`: a procedure, or an answer to a slot, of this kind and trust. It implies the
/// condition of the index `entry_standing`.
pub(crate) fn standing_condition(typology: Typology, trust: Trust) -> String {
    let slot = if typology == Typology::Procedural {
        ""
    } else {
        " AND e.slot IS NOT NULL"
    };
    let typology = typology.as_str();
    format!(
        " AND e.typology = '{typology}' AND e.trust = '{}'{slot}",
        trust.as_str()
    )
}

/// The key of a row beside the tenant.
pub(crate) const KEY: [Column<EntryChange>; 2] = [
    number("scope_id", |c| Value::number(c.key.scope)),
    number("row_id", |c| Value::number(c.key.row)),
];

/// All other columns that both stores have, in the order in which `read_row` reads them.
pub(crate) const COLUMNS: [Column<EntryChange>; 29] = [
    text("id", |c| Value::text(c.after.id.as_str())),
    content("content", |c| {
        Value::text(text_of(c).map_or("", |t| t.content.as_str()))
    }),
    text("tags", |c| match text_of(c) {
        Some(text) => Value::owned_text(serde_json::Value::from(text.tags.clone()).to_string()),
        None => Value::text("[]"),
    }),
    text("metadata", |c| {
        Value::opt_text(text_of(c).and_then(|t| t.metadata.as_deref()))
    }),
    bytes("content_hash", |c| {
        Value::Bytes(text_of(c).map(|t| Cow::Owned(content_hash(t.content.as_bytes()).to_vec())))
    }),
    text("tier", |c| Value::text(c.after.tier.as_str())),
    text("typology", |c| Value::text(c.after.typology.as_str())),
    number("created_at", |c| Value::number(c.after.created_at.0)),
    number("expires_at", |c| instant(c.after.expires_at)),
    text("written_by", |c| {
        Value::opt_text(c.after.written_by.as_deref())
    }),
    text("written_by_run", |c| {
        Value::opt_text(c.after.written_by_run.as_deref())
    }),
    number("scan", |c| {
        Value::number(c.after.redaction_fingerprint.cast_signed())
    }),
    number("rev_from", |c| {
        Value::number(c.after.visible_from.0.cast_signed())
    }),
    number("rev_to", |c| {
        Value::Number(c.after.visible_to.map(|revision| revision.0.cast_signed()))
    }),
    text("removed_reason", |c| {
        Value::opt_text(c.after.state.stored())
    }),
    text("removed_by_run", |c| {
        Value::opt_text(c.after.removed_by_run.as_deref())
    }),
    number("erased_at", |c| instant(c.after.erased_at)),
    text("owner", |c| Value::opt_text(c.after.owner.as_deref())),
    number("replaced_by", |c| Value::Number(c.after.replaced_by)),
    number("support", |c| Value::number(c.after.support.cast_signed())),
    text("session", |c| Value::opt_text(c.after.session.as_deref())),
    text("interaction", |c| {
        Value::opt_text(c.after.interaction.as_deref())
    }),
    text("world", |c| Value::opt_text(c.after.world.as_deref())),
    text("slot", |c| Value::opt_text(c.after.slot.as_deref())),
    number("valid_at", |c| instant(c.after.valid_at)),
    number("invalid_at", |c| instant(c.after.invalid_at)),
    number("ended_at", |c| instant(c.after.ended_at)),
    text("trust", |c| Value::text(c.after.trust.as_str())),
    text("evidence", |c| Value::text(&c.after.evidence)),
];

/// The columns whose values go with the text.
const TEXT: [&str; 4] = ["content", "tags", "metadata", "content_hash"];

/// The columns of a text that is redacted again, and of the names beside it.
pub(crate) fn text_columns() -> Vec<Column<EntryChange>> {
    let names = ["scan", "world", "slot", "interaction"];
    pick(&COLUMNS, &[&TEXT[..], &names].concat())
}

/// The columns that an erasure empties, and the instant of it. The text may have been redacted
/// again before it went.
pub(crate) fn erasure_columns() -> Vec<Column<EntryChange>> {
    [text_columns(), pick(&COLUMNS, &["erased_at"])].concat()
}

/// The columns that change while an entry keeps its text.
pub(crate) fn state_columns() -> Vec<Column<EntryChange>> {
    pick(
        &COLUMNS,
        &[
            "rev_from",
            "rev_to",
            "removed_reason",
            "removed_by_run",
            "replaced_by",
            "support",
            "valid_at",
            "invalid_at",
            "ended_at",
            "evidence",
        ],
    )
}

/// The names of all columns of a row in the table `alias`, for `read_row`. The text is NULL unless
/// the SQL condition `with_text` is true.
pub(crate) fn select_list(alias: &str, with_text: &str) -> String {
    let column = |column: &Column<EntryChange>| {
        if TEXT.contains(&column.name) && with_text != ALWAYS {
            format!("CASE WHEN {with_text} THEN {alias}.{} END", column.name)
        } else {
            format!("{alias}.{}", column.name)
        }
    };
    let names: Vec<String> = COLUMNS.iter().map(column).collect();
    format!("{alias}.scope_id, {alias}.row_id, {}", names.join(", "))
}

/// The SQL condition of `select_list` for a read that always wants the text.
const ALWAYS: &str = "true";

/// The columns of an entry `e` with its text, for `read_entry`.
pub(crate) static WITH_TEXT: LazyLock<String> = LazyLock::new(|| select_list("e", ALWAYS));

/// The columns of the name of an entry `e` in its memory `s`, for `read_name`. The instant at which
/// it ceases to be true follows.
pub(crate) const NAME: &str = "e.scope_id, e.row_id, e.id, s.memory_ref";

/// The number of columns that `select_list` names.
pub(crate) const WIDTH: usize = KEY.len() + COLUMNS.len();

fn text_of(change: &EntryChange) -> Option<&EntryText> {
    change.after.text.as_deref()
}

fn instant(at: Option<Timestamp>) -> Value<'static> {
    Value::Number(at.map(|at| at.0))
}

/// Reads the columns of a row one after the other.
pub(crate) trait ColumnReader {
    fn number(&mut self) -> Result<Option<i64>, StoreError>;
    fn text(&mut self) -> Result<Option<String>, StoreError>;
    fn bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError>;
    /// A text of the column type `Content`.
    fn content(&mut self) -> Result<Option<String>, StoreError>;
}

/// Reads a row from the columns of `select_list`.
pub(crate) fn read_row(row: &mut impl ColumnReader) -> Result<(RowKey, EntryRow), StoreError> {
    let key = RowKey {
        scope: row.number()?.ok_or(UNREADABLE)?,
        row: row.number()?.ok_or(UNREADABLE)?,
    };
    let id = EntryId::parse(&required(row.text()?)?).ok_or(UNREADABLE)?;
    let content = row.content()?;
    let tags = row.text()?;
    let metadata = row.text()?;
    row.bytes()?; // the hash of the text is computed when it is saved
    let text = content.zip(tags).map(|(content, tags)| {
        let tags = serde_json::from_str(&tags).map_err(|_| UNREADABLE)?;
        Ok::<_, StoreError>(Arc::new(EntryText {
            content,
            tags,
            metadata,
        }))
    });
    let text = text.transpose()?;
    let tier = required(row.text()?)?.parse().map_err(|_| UNREADABLE)?;
    let typology = required(row.text()?)?.parse().map_err(|_| UNREADABLE)?;
    let created_at = Timestamp(required(row.number()?)?);
    let expires_at = row.number()?.map(Timestamp);
    let written_by = row.text()?;
    let written_by_run = row.text()?;
    let redaction_fingerprint = required(row.number()?)?.cast_unsigned();
    let visible_from = Revision(required(row.number()?)?.cast_unsigned());
    let visible_to = row.number()?.map(|number| Revision(number.cast_unsigned()));
    let state = EntryState::from_stored(row.text()?.as_deref()).ok_or(UNREADABLE)?;
    let removed_by_run = row.text()?;
    let erased_at = row.number()?.map(Timestamp);
    let entry = EntryRow {
        id,
        tier,
        typology,
        text: text.filter(|_| erased_at.is_none()),
        created_at,
        expires_at,
        written_by,
        written_by_run,
        redaction_fingerprint,
        visible_from,
        visible_to,
        state,
        removed_by_run,
        erased_at,
        owner: row.text()?,
        replaced_by: row.number()?,
        support: required(row.number()?)?.cast_unsigned(),
        session: row.text()?,
        interaction: row.text()?,
        world: row.text()?,
        slot: row.text()?,
        valid_at: row.number()?.map(Timestamp),
        invalid_at: row.number()?.map(Timestamp),
        ended_at: row.number()?.map(Timestamp),
        trust: required(row.text()?)?.parse().map_err(|_| UNREADABLE)?,
        evidence: required(row.text()?)?,
    };
    Ok((key, entry))
}

/// Reads an entry of a memory from the columns of `WITH_TEXT`.
pub(crate) fn read_entry(
    row: &mut impl ColumnReader,
    memory_ref: &MemoryRef,
) -> Result<Entry, StoreError> {
    entry_of(read_row(row)?.1, memory_ref.clone())
}

/// Reads an entry that a query found: the columns of `WITH_TEXT`, the name of its memory if
/// that is not known, and the entry that replaced it.
pub(crate) fn read_found(
    row: &mut impl ColumnReader,
    memory_ref: Option<&MemoryRef>,
) -> Result<FoundEntry, StoreError> {
    let (key, stored) = read_row(row)?;
    let name = row.text()?;
    let known = memory_ref.cloned();
    let memory_ref = known
        .or_else(|| MemoryRef::parse(&name?))
        .ok_or(MALFORMED)?;
    let state = stored.state;
    let ended_at = stored.ended_at;
    let replaced_by = row.text()?.map(|id| EntryId::parse(&id).ok_or(MALFORMED));
    Ok(FoundEntry {
        row: RowCursor(key.scope, key.row),
        memory_ref: memory_ref.clone(),
        id: stored.id.clone(),
        invalid_at: stored.invalid_at,
        whole: Some(WholeEntry {
            entry: entry_of(stored, memory_ref)?,
            state,
            ended_at,
            replaced_by: replaced_by.transpose()?,
        }),
    })
}

/// Reads the name of an entry that a query found: the columns of `NAME`, and the instant at which
/// it ceases to be true.
pub(crate) fn read_name(row: &mut impl ColumnReader) -> Result<FoundEntry, StoreError> {
    Ok(FoundEntry {
        row: RowCursor(required(row.number()?)?, required(row.number()?)?),
        id: EntryId::parse(&required(row.text()?)?).ok_or(MALFORMED)?,
        memory_ref: MemoryRef::parse(&required(row.text()?)?).ok_or(MALFORMED)?,
        invalid_at: row.number()?.map(Timestamp),
        whole: None,
    })
}

/// An entry as its readers see it.
fn entry_of(row: EntryRow, memory_ref: MemoryRef) -> Result<Entry, StoreError> {
    let text = Arc::unwrap_or_clone(row.text.ok_or(UNREADABLE)?);
    let metadata = text.metadata.map(|json| serde_json::from_str(&json));
    let world = row
        .world
        .map_or(Some(WorldId::none()), |id| WorldId::parse(&id));
    Ok(Entry {
        id: row.id,
        memory_ref,
        content: text.content,
        tags: text.tags,
        metadata: metadata.transpose().map_err(|_| UNREADABLE)?,
        created_at: row.created_at,
        expires_at: row.expires_at,
        tier: row.tier,
        typology: row.typology,
        facets: Facets {
            session: parsed(row.session, SessionId::parse)?,
            interaction: parsed(row.interaction, InteractionId::parse)?,
            world: world.ok_or(UNREADABLE)?,
            slot: row.slot,
            valid_at: row.valid_at,
            invalid_at: row.invalid_at,
            trust: row.trust,
            evidence: Evidence::from_text(&row.evidence).ok_or(UNREADABLE)?,
        },
        visible: RevisionRange {
            from: row.visible_from,
            to: row.visible_to,
        },
        redaction_fingerprint: row.redaction_fingerprint,
    })
}

fn parsed<T>(
    name: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    name.map(|name| parse(&name).ok_or(UNREADABLE)).transpose()
}

fn required<T>(value: Option<T>) -> Result<T, StoreError> {
    value.ok_or(UNREADABLE)
}
