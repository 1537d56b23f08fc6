//! The cursor of a list: opaque, and authenticated for one tenant and memory, so that one of
//! another memory or a forged one is refused.

use crate::engine::HostKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_core::sabotage;
use remem_core::{EntryId, Rejection, Scope, Timestamp};
use remem_store::ListPosition;

/// Bytes of the authentication code in a cursor.
const MAC_BYTES: usize = 16;

/// Encodes a position as a cursor.
#[must_use]
pub fn encode(key: &HostKey, scope: &Scope, position: &ListPosition) -> String {
    let mut bytes = mac(key, scope, position.created_at, position.id.as_str()).to_vec();
    bytes.extend(position.created_at.0.to_be_bytes());
    bytes.extend(position.id.as_str().as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a cursor; fails for anything that `encode` did not make for this scope.
pub fn decode(key: &HostKey, scope: &Scope, cursor: &str) -> Result<ListPosition, Rejection> {
    parse(key, scope, cursor).ok_or(Rejection::Invalid {
        field: "cursor",
        rule: "is not one that this list gave out",
    })
}

/// Decodes and authenticates a cursor.
fn parse(key: &HostKey, scope: &Scope, cursor: &str) -> Option<ListPosition> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (code, rest) = bytes.split_at_checked(MAC_BYTES)?;
    let (created_at, id) = rest.split_at_checked(8)?;
    let created_at = Timestamp(i64::from_be_bytes(created_at.try_into().ok()?));
    let id = EntryId::parse(std::str::from_utf8(id).ok()?)?;
    let expected = mac(key, scope, created_at, id.as_str());
    // Compares all bytes, without stopping at the first difference.
    let difference = code
        .iter()
        .zip(expected)
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    sabotage!("forged-cursors", difference == 0, true).then_some(ListPosition { created_at, id })
}

/// The authentication code of a position in a scope.
fn mac(key: &HostKey, scope: &Scope, created_at: Timestamp, id: &str) -> [u8; MAC_BYTES] {
    let mut hasher = blake3::Hasher::new_keyed(&key.derive("remembrancer cursor v1"));
    for part in [scope.tenant.as_str(), scope.memory_ref.as_str(), id] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.update(&created_at.0.to_le_bytes());
    let mut code = [0; MAC_BYTES];
    code.copy_from_slice(&hasher.finalize().as_bytes()[..MAC_BYTES]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::{MemoryRef, TenantId};

    #[test]
    fn a_cursor_is_accepted_only_by_its_own_scope_and_host_key() {
        let key = HostKey::new([7; 32]);
        let scope = |t: &str, m: &str| {
            Scope::new(TenantId::parse(t).unwrap(), MemoryRef::parse(m).unwrap())
        };
        let position = ListPosition {
            created_at: Timestamp(-5),
            id: EntryId::parse("mem_é").unwrap(),
        };
        let cursor = encode(&key, &scope("a", "m"), &position);
        assert_eq!(decode(&key, &scope("a", "m"), &cursor), Ok(position));
        assert!(decode(&key, &scope("b", "m"), &cursor).is_err());
        assert!(decode(&key, &scope("a", "n"), &cursor).is_err());
        assert!(decode(&HostKey::new([8; 32]), &scope("a", "m"), &cursor).is_err());
        for bad in [
            "",
            "AAAA",
            "not base64!",
            &cursor[1..],
            &format!("{cursor}AA"),
        ] {
            assert!(decode(&key, &scope("a", "m"), bad).is_err(), "{bad}");
        }
    }
}
