//! What reads of entries share: which entries are meant, and what is shown beside them.

use super::invalid;
use remem_core::{Entry, InteractionId, Rejection, SessionId};
use remem_store::Filter;
use remem_wire::entry::EntryBeside;
use remem_wire::memory::EntryList;
use remem_wire::workshop::{EntryFacets, TierName, TypologyName};
use remem_wire::{Failure, MemoryEntry, Problem};

/// What is shown beside entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Include {
    /// The caller's own JSON.
    pub metadata: bool,
    /// Tier, kind, window and so on.
    pub facets: bool,
}

impl Include {
    /// Everything.
    pub const ALL: Include = Include {
        metadata: true,
        facets: true,
    };

    /// Reads a list such as `metadata,facets`.
    pub fn parse(text: Option<&str>) -> Result<Include, Failure> {
        let mut include = Include::default();
        for name in text.into_iter().flat_map(|text| text.split(',')) {
            match name {
                "metadata" => include.metadata = true,
                "facets" => include.facets = true,
                _ => {
                    return Err(invalid(
                        "include",
                        "can only be metadata, facets, or both separated by a comma",
                    ));
                }
            }
        }
        Ok(include)
    }

    /// One entry.
    pub fn beside(self, entry: Entry) -> EntryBeside {
        let facets = self.facets.then(|| EntryFacets::from(&entry));
        EntryBeside {
            entry: MemoryEntry::from(&entry),
            facets,
            metadata: entry.metadata.filter(|_| self.metadata),
        }
    }

    /// Several entries.
    pub fn list(self, entries: Vec<Entry>) -> EntryList {
        let mut answer = EntryList::default();
        for EntryBeside {
            entry,
            metadata,
            facets,
        } in entries.into_iter().map(|entry| self.beside(entry))
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

/// The conditions that workshop memory adds to a read; `places` are session and chat thread.
pub(super) fn filter(
    tier: Option<TierName>,
    typology: Option<TypologyName>,
    places: (Option<&str>, Option<&str>),
) -> Result<Filter, Failure> {
    let malformed =
        |field| move || Failure::from(Problem::Rejected(Rejection::MalformedName { field }));
    let session = places
        .0
        .map(|name| SessionId::parse(name).ok_or_else(malformed("session")))
        .transpose()?;
    let interaction = places
        .1
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
