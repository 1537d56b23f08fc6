//! The state of an entry: live, or the reason why it was removed; and how it is stored.

use crate::batch::{ClosingReason, RetireReason};

/// The present state of an entry: live, or the reason why it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// It is part of its memory.
    Live,
    /// A caller deleted it.
    Deleted,
    /// It expired at its own instant.
    Expired,
    /// A subject that it is about was forgotten.
    Forgotten,
    /// Another entry replaces it, for this reason.
    Retired(RetireReason),
    /// Its statement is no longer true.
    Invalidated,
    /// Its session or chat thread is over.
    Ended,
    /// It was removed, and its text is kept because an action rests on it.
    TextHeld,
}

impl EntryState {
    /// The reasons for which an entry can have been removed.
    pub const REMOVED: [EntryState; 9] = [
        EntryState::Deleted,
        EntryState::Expired,
        EntryState::Forgotten,
        EntryState::Retired(RetireReason::Merged),
        EntryState::Retired(RetireReason::Superseded),
        EntryState::Retired(RetireReason::Compacted),
        EntryState::Invalidated,
        EntryState::Ended,
        EntryState::TextHeld,
    ];

    /// Reads the stored reason; `None` for a reason that this version does not know.
    #[must_use]
    pub fn from_stored(reason: Option<&str>) -> Option<EntryState> {
        let Some(reason) = reason else {
            return Some(EntryState::Live);
        };
        EntryState::REMOVED
            .into_iter()
            .find(|state| state.stored() == Some(reason))
    }

    /// The reason as it is stored; `None` for a live entry.
    #[must_use]
    pub fn stored(self) -> Option<&'static str> {
        match self {
            EntryState::Live => None,
            EntryState::Ended => Some("closed"),
            other => Some(other.as_str()),
        }
    }

    /// The stable name, as it is sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EntryState::Live => "live",
            EntryState::Deleted => "deleted",
            EntryState::Expired => "expired",
            EntryState::Forgotten => "forgotten",
            EntryState::Retired(reason) => reason.as_str(),
            EntryState::Invalidated => "invalidated",
            EntryState::Ended => "ended",
            EntryState::TextHeld => "held",
        }
    }

    /// Returns true if the text goes as soon as no run reads a snapshot that shows it. In the
    /// other states something else decides when the text goes: the entry that replaces it, the
    /// retention of history, or an action that rests on it.
    #[must_use]
    pub fn loses_text(self) -> bool {
        matches!(
            self,
            EntryState::Deleted | EntryState::Retired(RetireReason::Compacted) | EntryState::Ended
        )
    }
}

impl From<ClosingReason> for EntryState {
    fn from(closing: ClosingReason) -> EntryState {
        match closing {
            ClosingReason::InvalidFrom(_) => EntryState::Invalidated,
            ClosingReason::ReplacedNow => EntryState::Retired(RetireReason::Superseded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_as_it_was_stored() {
        for state in EntryState::REMOVED.into_iter().chain([EntryState::Live]) {
            assert_eq!(EntryState::from_stored(state.stored()), Some(state));
        }
        assert_eq!(EntryState::from_stored(Some("ended")), None, "never stored");
        assert_eq!(EntryState::from_stored(Some("lost")), None);
    }
}
