//! Sealing: what must be kept but never read from the database. Authenticated encryption under a key derived from the
//! host's secret; the associated data binds a ciphertext to its place, so that one copied elsewhere does not open.

use remem_core::Sealed;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the cipher's length"))
}

/// Seals `plain` under `key`, bound to `aad`. The nonce is random and stands in front.
///
/// # Panics
/// If the machine has no randomness.
#[must_use]
pub fn seal(key: &[u8; 32], aad: &[u8], plain: &[u8]) -> Sealed {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).expect("the machine has randomness");
    let mut text = Zeroizing::new(plain.to_vec());
    let tag = cipher(key).seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), text.as_mut_slice());
    let tag = tag.expect("the text is shorter than the cipher's limit");
    Sealed::from_ciphertext(&[nonce.as_slice(), text.as_slice(), tag.as_ref()].concat())
}

/// Opens what `seal` made with the same key and associated data; `None` for anything else.
#[must_use]
pub fn open(key: &[u8; 32], aad: &[u8], sealed: &Sealed) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = Zeroizing::new(sealed.ciphertext());
    let (nonce, rest) = bytes.split_at_checked(NONCE_LEN)?;
    let mut text = Zeroizing::new(rest.to_vec());
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let length = cipher(key).open_in_place(nonce, Aad::from(aad), text.as_mut_slice()).ok()?.len();
    text.truncate(length);
    Some(text)
}

/// Associated data from parts, each with its length, so that two different places never look alike.
#[must_use]
pub fn place(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes().into_iter().chain(part.bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_place_open_it() {
        let (key, here) = ([1; 32], place(&["t", "wh_1"]));
        let sealed = seal(&key, &here, b"a secret");
        assert_eq!(open(&key, &here, &sealed).unwrap().as_slice(), b"a secret");
        assert_eq!(open(&[2; 32], &here, &sealed), None);
        assert_eq!(open(&key, &place(&["tw", "h_1"]), &sealed), None);
        assert_ne!(seal(&key, &here, b"a secret"), sealed, "each time anew");
        let mut bytes = sealed.ciphertext();
        assert!(!bytes.windows(8).any(|w| w == b"a secret"));
        bytes[NONCE_LEN] ^= 1;
        assert_eq!(open(&key, &here, &Sealed::from_ciphertext(&bytes)), None);
        assert_eq!(open(&key, &here, &Sealed::from_ciphertext(&bytes[..5])), None);
        assert_eq!(open(&key, &here, &Sealed::from_ciphertext(&[])), None);
        let empty = seal(&key, &here, b"");
        assert_eq!(open(&key, &here, &empty).unwrap().len(), 0);
    }
}
