//! The search indexes of a commit: tags, postings, and the counts of a memory that ranking needs.
//! Owns the tables `entry_tag` and `posting`. Decides nothing: an entry with a text is indexed.

use super::gate::{SqlCall, sql_call};
use crate::terms::{self, WordCounts};
use remem_core::ledger::{EntryChange, EntryRow, EntryText, RowKey};
use remem_core::sabotage;
use std::collections::HashMap;

/// The number of characters of an id that the ordered indexes hold.
const ID_HEAD_CHARS: usize = 100;

pub(super) fn id_head(id: &str) -> &str {
    id.char_indices()
        .nth(ID_HEAD_CHARS)
        .map_or(id, |(end, _)| &id[..end])
}

/// The rows of the indexes that a group deletes and inserts.
#[derive(Default)]
pub(super) struct IndexWrites {
    new_tags: TagColumns,
    old_tags: TagColumns,
    new_postings: PostingColumns,
    old_postings: PostingColumns,
    /// The entries with a text, and their words, that each memory gains or loses.
    pub counts: HashMap<i64, (i64, i64)>,
}

#[derive(Default)]
struct TagColumns {
    scope: Vec<i64>,
    tag: Vec<String>,
    created_at: Vec<i64>,
    id_head: Vec<String>,
    row: Vec<i64>,
}

#[derive(Default)]
struct PostingColumns {
    scope: Vec<i64>,
    word: Vec<i64>,
    row: Vec<i64>,
    times: Vec<i16>,
    words: Vec<i32>,
}

impl TagColumns {
    fn add(&mut self, key: RowKey, entry: &EntryRow, text: &EntryText) {
        for tag in &text.tags {
            self.scope.push(key.scope);
            self.tag.push(tag.clone());
            self.created_at.push(entry.created_at.0);
            self.id_head.push(id_head(entry.id.as_str()).to_owned());
            self.row.push(key.row);
        }
    }
}

impl PostingColumns {
    fn add(&mut self, key: RowKey, words: &WordCounts) {
        for (word, times) in &words.counts {
            self.scope.push(key.scope);
            self.word.push(*word);
            self.row.push(key.row);
            self.times.push(*times);
            self.words.push(words.total);
        }
    }
}

impl IndexWrites {
    /// What the indexes have to follow of these changes.
    pub fn of(changes: &[EntryChange]) -> IndexWrites {
        let mut writes = IndexWrites::default();
        for change in changes.iter().filter_map(EntryChange::index_change) {
            if let Some(old) = change.old {
                let words = terms::count_words(&old.content);
                sabotage!(
                    "postgres-deleted-text-stays-in-the-index",
                    writes.old_postings.add(change.key, &words)
                );
                writes.old_tags.add(change.key, change.entry, old);
                writes.count(change.key, -1, &words);
            }
            if let Some(new) = change.new {
                let words = terms::count_words(&new.content);
                writes.new_postings.add(change.key, &words);
                writes.new_tags.add(change.key, change.entry, new);
                writes.count(change.key, 1, &words);
            }
        }
        writes
    }

    fn count(&mut self, key: RowKey, sign: i64, words: &WordCounts) {
        let counts = self.counts.entry(key.scope).or_default();
        counts.0 += sign;
        counts.1 += sign * i64::from(words.total);
    }

    /// The statements; old rows go before new ones come, which may have the same keys.
    pub fn calls<'a>(&'a self, tenant: &'a &'a str) -> Vec<SqlCall<'a>> {
        let tags = |sql, g: &'a TagColumns| {
            let call = sql_call(
                sql,
                &[tenant, &g.scope, &g.tag, &g.created_at, &g.id_head, &g.row],
            );
            (!g.row.is_empty()).then_some(call)
        };
        let old = &self.old_postings;
        let new = &self.new_postings;
        let old_postings = sql_call(OLD_POSTINGS, &[tenant, &old.scope, &old.word, &old.row]);
        let new_postings = sql_call(
            NEW_POSTINGS,
            &[
                tenant, &new.scope, &new.word, &new.row, &new.times, &new.words,
            ],
        );
        let calls = [
            tags(OLD_TAGS, &self.old_tags),
            (!old.row.is_empty()).then_some(old_postings),
            tags(NEW_TAGS, &self.new_tags),
            (!new.row.is_empty()).then_some(new_postings),
        ];
        calls.into_iter().flatten().collect()
    }
}

const NEW_TAGS: &str =
    "INSERT INTO remem.entry_tag (tenant_id, scope_id, tag, created_at, id_head, row_id)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c
     CROSS JOIN unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]) u WHERE c.tenant_id = $1";
const OLD_TAGS: &str = "DELETE FROM remem.entry_tag g
     USING unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS o (scope_id, tag, created_at, id_head, row_id)
     WHERE g.tenant_id = $1 AND g.scope_id = o.scope_id AND g.tag = o.tag AND g.created_at = o.created_at AND g.id_head = o.id_head
       AND g.row_id = o.row_id";
const NEW_POSTINGS: &str = "INSERT INTO remem.posting (tenant_id, scope_id, word, row_id, times, words)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c
     CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::integer[]) u WHERE c.tenant_id = $1";
const OLD_POSTINGS: &str =
    "DELETE FROM remem.posting p USING unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS o (scope_id, word, row_id)
     WHERE p.tenant_id = $1 AND p.scope_id = o.scope_id AND p.word = o.word AND p.row_id = o.row_id";

/// The statements of this file that delete rows, for the test of their keys.
#[cfg(test)]
pub(crate) const DELETIONS: [&str; 2] = [OLD_TAGS, OLD_POSTINGS];
