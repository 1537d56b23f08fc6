//! Names and clocks: every identifier that crosses a boundary is parsed here once and trusted
//! afterwards.
//!
//! A malformed name parses to `None`: callers treat it exactly like an unknown one, so that a
//! hostile name can neither widen a lookup nor be echoed in an error.

use crate::sabotage;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Milliseconds since the Unix epoch, UTC.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The instant `ms` milliseconds later (saturating).
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }

    /// The last instant that is before the end of 9999 in every time zone: the last one `jiff` can
    /// write.
    pub const LAST: Timestamp = Timestamp(253_402_207_199_999);

    /// RFC 3339 in UTC with milliseconds.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let instant = jiff::Timestamp::from_millisecond(self.0.clamp(0, Timestamp::LAST.0))
            .unwrap_or_default();
        jiff::fmt::temporal::DateTimePrinter::new()
            .precision(Some(3))
            .timestamp_to_string(&instant)
    }
}

/// A tenant's logical clock: one step per committed batch, in commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// The position of an event in its tenant's log: 1, 2, 3, … without gaps.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Seq(pub u64);

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name if it is well formed; `None` otherwise, without saying why.
            #[must_use]
            pub fn parse(text: &str) -> Option<$name> {
                let valid: fn(&str) -> bool = $valid;
                valid(text).then(|| $name(text.to_owned()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// The name of a tenant, the owner of memories: 1–64 of `A-Z a-z 0-9 _ . : -`, starting with a
    /// letter or digit. Nothing crosses from one tenant to another.
    TenantId,
    |t| t.len() <= 64
        && t.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !t.contains("..")
        && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
);
name_type!(
    /// The name of a principal: the person or program inside a tenant that a key belongs to.
    PrincipalId,
    |t| (1..=128).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
);
name_type!(
    /// The name of a memory inside a tenant: opaque, 1–256 characters, without path traversal.
    /// `~user/…` belongs to that user; every other name belongs to the tenant, and any other name
    /// that begins with `~` is malformed.
    MemoryRef,
    |t| {
        let chars = t.chars().count();
        (1..=256).contains(&chars) && !t.chars().any(char::is_control) && !has_traversal(t) && (!t.starts_with('~') || owner_in_name(t).is_some())
    }
);
name_type!(
    /// The name of a session: a stretch of an operator's work. Entries of the session tier end with
    /// it.
    SessionId,
    |t| (1..=128).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
);
name_type!(
    /// The name of an interaction, which is a chat thread; the caller chooses it. 1–200 characters,
    /// no control characters.
    InteractionId,
    |t| (1..=200).contains(&t.chars().count()) && !t.chars().any(char::is_control)
);
name_type!(
    /// The name of a world: a named set of rules that entries must not restate.
    WorldId,
    |t| (1..=128).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
);
name_type!(
    /// The name of a rule inside its world.
    RuleId,
    |t| (1..=128).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
);
name_type!(
    /// The name of an entry inside its memory: 1–1500 characters, no control characters.
    EntryId,
    |t| (1..=1500).contains(&t.chars().count()) && !t.chars().any(char::is_control)
);
name_type!(
    /// The name of a run, which is one execution of a workflow.
    RunId,
    |t| (1..=128).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
);

/// The user in `~user/rest`, if both are well formed.
pub(crate) fn owner_in_name(memory_ref: &str) -> Option<&str> {
    let (user, rest) = memory_ref.strip_prefix('~')?.split_once('/')?;
    (!rest.is_empty() && PrincipalId::parse(user).is_some()).then_some(user)
}

impl MemoryRef {
    /// Returns the user that the memory belongs to, or `None` for a memory of the tenant. The owner
    /// is part of the name, so that no list, event or record of a memory can lose it.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        owner_in_name(&self.0)
    }
}

impl WorldId {
    /// The world without rules, for entries that are checked against none.
    #[must_use]
    pub fn none() -> WorldId {
        WorldId("-".to_owned())
    }

    /// Returns true for the world without rules, which can never get any.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0 == "-"
    }
}

/// The party that acts, as far as memories of one user are concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Actor {
    /// No particular user: sees and changes the tenant's memories only.
    #[default]
    NoUser,
    /// A user: sees and changes the tenant's memories and their own.
    User(PrincipalId),
    /// The host itself: reaches the memories of all users. Passes and erasures act as the host.
    Host,
}

impl Actor {
    /// The actor as stores get it: the name of the user, `*` for the host, an empty text for no
    /// user.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Actor::NoUser => "",
            Actor::User(user) => user.as_str(),
            Actor::Host => "*",
        }
    }

    /// Returns true if the actor may know that this memory exists.
    #[must_use]
    pub fn may_see(&self, memory_ref: &MemoryRef) -> bool {
        memory_ref.owner().is_none_or(|owner| {
            sabotage!(
                "another-user-s-memory-has-a-name",
                *self == Actor::Host || self.as_str() == owner,
                true
            )
        })
    }
}

/// Detects path traversal in any encoding: two dots, backslashes, or percent-encodings of dot,
/// slash, backslash, NUL and percent itself.
fn has_traversal(text: &str) -> bool {
    if sabotage!(
        "refs-may-climb",
        text.contains("..") || text.contains('\\'),
        text.contains('\\')
    ) {
        return true;
    }
    let lower = text.to_ascii_lowercase();
    ["%2e", "%2f", "%5c", "%00", "%25"]
        .iter()
        .any(|code| lower.contains(code))
}

/// The memory that an operation addresses, and the party that acts on it. Nothing reads or writes
/// content without a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub tenant: TenantId,
    pub memory_ref: MemoryRef,
    /// The party that acts on the memory. A store shows only what this actor may see, even if the
    /// memory was named by another party.
    pub actor: Actor,
}

impl Scope {
    /// The scope of `memory_ref` inside `tenant`, acting as no particular user.
    #[must_use]
    pub fn new(tenant: TenantId, memory_ref: MemoryRef) -> Scope {
        Scope {
            tenant,
            memory_ref,
            actor: Actor::NoUser,
        }
    }

    /// The same memory with `actor` acting on it.
    #[must_use]
    pub fn with_actor(self, actor: Actor) -> Scope {
        Scope { actor, ..self }
    }

    /// The same memory with the host acting on it.
    #[must_use]
    pub fn as_host(self) -> Scope {
        self.with_actor(Actor::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_memory_refs_are_rejected() {
        let long = "x".repeat(257);
        for bad in [
            "",
            long.as_str(),
            "a\0b",
            "a\nb",
            "\u{85}",
            "..",
            "a/../b",
            "..\\b",
            "a\\b",
            "%2e%2e/x",
            "a%2Fb",
            "a%5cb",
            "a%00",
            "%252e%252e",
            "~",
            "~/mine",
            "~a",
            "~a/",
            "~a b/c",
            "~*/c",
        ] {
            assert_eq!(MemoryRef::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn valid_memory_refs_are_kept_unchanged() {
        let long = "é".repeat(256);
        for good in [
            "agent-1",
            "mem://customer-support/agent-1",
            "workspaces/a/agents/b/memories",
            "日本語",
            "a.b",
            "50% off",
            long.as_str(),
        ] {
            assert_eq!(
                MemoryRef::parse(good).as_ref().map(MemoryRef::as_str),
                Some(good)
            );
        }
    }

    #[test]
    fn an_owned_memory_is_visible_to_its_owner_and_the_host_only() {
        let own = MemoryRef::parse("~ada/ops").unwrap();
        let shared = MemoryRef::parse("ada/ops").unwrap();
        assert_eq!((own.owner(), shared.owner()), (Some("ada"), None));
        let user = |name: &str| Actor::User(PrincipalId::parse(name).unwrap());
        for (actor, sees) in [
            (Actor::NoUser, false),
            (user("bob"), false),
            (user("ada"), true),
            (Actor::Host, true),
        ] {
            assert_eq!(actor.may_see(&own), sees, "{actor:?}");
            assert!(actor.may_see(&shared));
        }
    }

    #[test]
    fn tenant_ids_use_a_closed_alphabet() {
        for bad in ["", ".a", "-a", "a/b", "a..b", "a b", "ä", &"a".repeat(65)] {
            assert_eq!(TenantId::parse(bad), None, "{bad:?}");
        }
        for good in ["default", "Acme_1", "org:team-7.eu"] {
            assert!(TenantId::parse(good).is_some(), "{good:?}");
        }
    }
}
