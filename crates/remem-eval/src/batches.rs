//! Divides the entries of a dataset into batches that a host accepts.

use crate::dataset::EntryText;
use anyhow::Context;
use remem_core::entry::Origin;
use remem_core::{Draft, EntryId};

/// The most entries of a batch.
const BATCH_ENTRIES: usize = 500;
/// The most bytes of text in a batch, unless one entry alone has more.
pub const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// The ranges of entries that fit into one request each.
pub fn batches(texts: &[EntryText]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut bytes = 0;
    for (place, text) in texts.iter().enumerate() {
        if place > start
            && (place - start >= BATCH_ENTRIES || bytes + text.text.len() > BATCH_BYTES)
        {
            ranges.push(start..place);
            (start, bytes) = (place, 0);
        }
        bytes += text.text.len();
    }
    if start < texts.len() {
        ranges.push(start..texts.len());
    }
    ranges
}

/// The drafts of a range of entries. The id of an entry is its index.
pub fn drafts(texts: &[EntryText], range: std::ops::Range<usize>) -> anyhow::Result<Vec<Draft>> {
    let draft = |place: usize| {
        let id = EntryId::parse(&format!("{place:08}")).context("a number is an id")?;
        let origin = Some(Origin {
            id,
            created_at: Some(texts[place].at),
        });
        Ok(Draft {
            content: texts[place].text.clone(),
            origin,
            ..Draft::default()
        })
    };
    range.map(draft).collect()
}
