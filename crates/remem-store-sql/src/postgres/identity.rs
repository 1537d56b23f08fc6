//! Who acts in a transaction, and how the policies learn of it: from settings that are local to the
//! transaction, in the text that begins it.
//!
//! `SET LOCAL` takes no parameters, and is the one form of a setting that a distributed PostgreSQL
//! passes on to its other servers. So values become text here, and nowhere else: only those of the
//! types below, and every character that is not plain as its number.

use super::waiters::Account;
use remem_core::{Actor, Scope, TenantId, sabotage};
use remem_store::KeyHash;

/// The setting that holds the name of the acting user. It states an identity and grants no rights,
/// so ownership checks can rely on it.
const SESSION_VAR_USER_ID: &str = "app.user_id";

/// The identity that the policies check. The default identity sees no row of any tenant.
#[derive(Clone, Copy, Default)]
pub(crate) struct Identity<'a> {
    tenant: Option<&'a TenantId>,
    actor: Option<&'a Actor>,
    key: Option<&'a KeyHash>,
    /// The tenant on whose account the host acts, where the policies must not see that tenant.
    on_behalf_of: Option<&'a TenantId>,
}

impl<'a> Identity<'a> {
    /// A tenant without a user: sees no rows that belong to one of its users.
    pub fn tenant(tenant: &'a TenantId) -> Identity<'a> {
        Identity {
            tenant: Some(tenant),
            ..Identity::default()
        }
    }

    /// An actor of a tenant: sees the tenant's rows and the actor's own.
    pub fn as_actor(tenant: &'a TenantId, actor: &'a Actor) -> Identity<'a> {
        Identity {
            tenant: Some(tenant),
            actor: Some(actor),
            ..Identity::default()
        }
    }

    /// The actor of a scope, in its tenant.
    pub fn of_scope(scope: &'a Scope) -> Identity<'a> {
        Identity::as_actor(&scope.tenant, &scope.actor)
    }

    /// The host, with access to the memories of all users of a tenant.
    pub fn as_host(tenant: &'a TenantId) -> Identity<'a> {
        Identity::as_actor(tenant, &Actor::Host)
    }

    /// The holder of a key whose tenant is still being looked up.
    pub fn key(key: &'a KeyHash) -> Identity<'a> {
        Identity {
            key: Some(key),
            ..Identity::default()
        }
    }

    /// The host itself, with access to tables without content only.
    pub fn host() -> Identity<'a> {
        Identity::default()
    }

    /// The host itself, serving a request of a tenant: its wait for a connection counts as the
    /// tenant's.
    pub fn host_for(tenant: &'a TenantId) -> Identity<'a> {
        Identity {
            on_behalf_of: Some(tenant),
            ..Identity::default()
        }
    }

    /// The account on which this identity waits for a connection; `None` for the host's own work.
    pub fn account(&self) -> Option<Account> {
        let tenant = self.tenant.or(self.on_behalf_of);
        let key = self.key.map(|hash| Account::Key(*hash));
        tenant.map(|id| Account::Tenant(id.clone())).or(key)
    }

    /// The statements that begin a transaction of this identity; `begin` is the first of them. All
    /// settings are set, so that no default of the server can add to an identity.
    pub fn begin(&self, begin: &str) -> String {
        let set = sabotage!(
            "postgres-an-identity-outlives-its-transaction",
            "SET LOCAL",
            "SET"
        );
        format!(
            "{begin}; {set} app.tenant_id = {}; {set} {SESSION_VAR_USER_ID} = {}; {set} app.key_hash = {}",
            IdentityValue::Tenant(self.tenant).literal(),
            IdentityValue::Actor(self.actor).literal(),
            IdentityValue::Key(self.key).literal(),
        )
    }
}

/// What can be a value of an identity: a name that was parsed, or a digest.
#[derive(Clone, Copy)]
enum IdentityValue<'a> {
    Tenant(Option<&'a TenantId>),
    Actor(Option<&'a Actor>),
    Key(Option<&'a KeyHash>),
}

impl IdentityValue<'_> {
    /// The value as a string literal of SQL, empty if there is none.
    fn literal(self) -> String {
        match self {
            IdentityValue::Tenant(tenant) => quoted(tenant.map_or("", TenantId::as_str)),
            IdentityValue::Actor(actor) => quoted(actor.map_or("", Actor::as_str)),
            IdentityValue::Key(key) => {
                let bytes = key.map_or(&[][..], KeyHash::as_slice);
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                quoted(&digits)
            }
        }
    }
}

/// A text as an escape string, which reads the same under every setting of the server. What is not
/// a letter, a digit or one of `_.:*-` is written as its number, so that no character of the text
/// can end the literal. The server refuses a NUL, and with it the transaction.
fn quoted(text: &str) -> String {
    let mut literal = "E'".to_owned();
    for character in text.chars() {
        let is_plain = character.is_ascii_alphanumeric() || "_.:*-".contains(character);
        if sabotage!("postgres-an-identity-is-not-quoted", is_plain, true) {
            literal.push(character);
        } else {
            literal.push_str(&format!("\\U{:08x}", u32::from(character)));
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::PrincipalId;

    /// Texts that would end a literal, begin another statement, or be read differently under some
    /// setting of the server.
    const HOSTILE: [&str; 10] = [
        "a'; SET app.tenant_id = 'b'; --",
        "a''b",
        "\\'; COMMIT; --",
        "a\0b",
        "a;b",
        "$$; RESET ROLE; $$",
        "a\nb",
        "a\"b",
        "E'a'",
        "ａ＇",
    ];

    /// Whether a literal is one token: quotes at both ends only, no separator, and each backslash
    /// begins the number of a character.
    fn is_one_literal(text: &str) -> bool {
        let inner = text
            .strip_prefix("E'")
            .and_then(|rest| rest.strip_suffix('\''));
        let Some(inner) = inner else {
            return false;
        };
        let mut escapes = inner.split('\\');
        let plain = |part: &str| {
            let mut bytes = part.bytes();
            bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.:*-".contains(&byte))
        };
        let number = |part: &str| {
            let digits = part.strip_prefix('U').and_then(|digits| digits.get(..8));
            digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        escapes.next().is_some_and(plain) && escapes.all(|part| plain(part) && number(part))
    }

    #[test]
    fn hostile_names_are_refused_and_hostile_texts_stay_one_literal() {
        for text in HOSTILE {
            assert!(TenantId::parse(text).is_none(), "{text:?} names no tenant");
            assert!(PrincipalId::parse(text).is_none(), "{text:?} names no user");
            let literal = quoted(text);
            assert!(is_one_literal(&literal), "{text:?}: {literal}");
        }
        assert!(!is_one_literal("E'a'b'"), "the test would notice");
    }

    #[test]
    fn every_character_that_a_name_may_have_is_quoted() {
        let mut accepted = 0;
        for character in (0..=0x2fff).filter_map(char::from_u32) {
            let name = format!("a{character}b");
            let tenant = TenantId::parse(&name);
            let user = PrincipalId::parse(&name).map(Actor::User);
            for literal in [
                IdentityValue::Tenant(tenant.as_ref()).literal(),
                IdentityValue::Actor(user.as_ref()).literal(),
            ] {
                assert!(is_one_literal(&literal), "{name:?}: {literal}");
            }
            accepted += usize::from(tenant.is_some());
        }
        assert_eq!(accepted, 66, "letters, digits and four marks");
    }

    #[test]
    fn a_transaction_begins_with_all_settings() {
        let tenant = TenantId::parse("acme").unwrap();
        assert_eq!(
            Identity::as_host(&tenant).begin("BEGIN READ ONLY"),
            "BEGIN READ ONLY; SET LOCAL app.tenant_id = E'acme'; SET LOCAL app.user_id = E'*'; \
             SET LOCAL app.key_hash = E''"
        );
        let key = Identity::key(&[0xab; 32]).begin("BEGIN");
        let digits = format!("app.key_hash = E'{}'", "ab".repeat(32));
        assert!(key.ends_with(&digits), "{key}");
        for byte in 0..=255 {
            let hash = [byte; 32];
            assert!(is_one_literal(&IdentityValue::Key(Some(&hash)).literal()));
        }
        assert_eq!(
            Identity::host().begin("BEGIN"),
            "BEGIN; SET LOCAL app.tenant_id = E''; SET LOCAL app.user_id = E''; SET LOCAL app.key_hash = E''",
        );
    }
}
