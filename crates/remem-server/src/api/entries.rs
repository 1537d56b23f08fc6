//! The part that all reads of entries share: the filter that selects entries, and the choice of
//! metadata and facets in the answer.

use super::invalid_field;
use remem_core::{Entry, InteractionId, Rejection, SessionId};
use remem_store::Filter;
use remem_wire::entry::EntryBeside;
use remem_wire::memory::EntryList;
use remem_wire::workshop::{EntryFacets, TierName, TypologyName};
use remem_wire::{Failure, MemoryEntry, Problem};

/// The choice of the optional parts of an entry that an answer shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Include {
    /// The JSON object that the writer stored with the entry.
    pub metadata: bool,
    /// Tier, kind, validity window and the other properties of workshop memory.
    pub facets: bool,
}

impl Include {
    pub const ALL: Include = Include {
        metadata: true,
        facets: true,
    };

    /// Parses a comma-separated list such as `metadata,facets`.
    pub fn parse(text: Option<&str>) -> Result<Include, Failure> {
        let mut include = Include::default();
        for name in text.into_iter().flat_map(|text| text.split(',')) {
            match name {
                "metadata" => include.metadata = true,
                "facets" => include.facets = true,
                _ => {
                    return Err(invalid_field(
                        "include",
                        "can only be metadata, facets, or both separated by a comma",
                    ));
                }
            }
        }
        Ok(include)
    }

    /// Converts an entry, with the parts that are included.
    pub fn render(self, entry: Entry) -> EntryBeside {
        let facets = self.facets.then(|| EntryFacets::from(&entry));
        EntryBeside {
            entry: MemoryEntry::from(&entry),
            facets,
            metadata: entry.metadata.filter(|_| self.metadata),
        }
    }

    /// Converts several entries; metadata and facets go into maps by entry id.
    pub fn render_list(self, entries: Vec<Entry>) -> EntryList {
        let mut answer = EntryList::default();
        for EntryBeside {
            entry,
            metadata,
            facets,
        } in entries.into_iter().map(|entry| self.render(entry))
        {
            answer
                .metadata
                .extend(metadata.map(|metadata| (entry.id.clone(), metadata)));
            answer
                .facets
                .extend(facets.map(|facets| (entry.id.clone(), facets)));
            answer.entries.push(entry);
        }
        answer
    }
}

/// Returns the filter for the conditions that workshop memory adds to a read: tier, kind, session
/// and interaction (chat thread).
pub(super) fn workshop_filter(
    tier: Option<TierName>,
    typology: Option<TypologyName>,
    session: Option<&str>,
    interaction: Option<&str>,
) -> Result<Filter, Failure> {
    let malformed =
        |field| move || Failure::from(Problem::Rejected(Rejection::MalformedName { field }));
    let session = session
        .map(|name| SessionId::parse(name).ok_or_else(malformed("session")))
        .transpose()?;
    let interaction = interaction
        .map(|name| InteractionId::parse(name).ok_or_else(malformed("interaction")))
        .transpose()?;
    Ok(Filter {
        tier: tier.map(Into::into),
        typology: typology.map(Into::into),
        session,
        interaction,
        ..Filter::default()
    })
}
