//! Sealing: encrypts a value so that only the same key, with the same associated data, decrypts it.
//! This file defines the format; it stores no key and does not decide what is secret.
//!
//! Every value is encrypted with a key of its own, derived from the given key and 32 fresh random
//! bytes that are stored beside the ciphertext. So a nonce is never used twice with one key,
//! however much is sealed.

use remem_core::Sealed;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

/// Version of the format.
const FORMAT: u8 = 1;
const SALT_BYTES: usize = 32;
const PURPOSE: &str = "remembrancer seal v1";

/// Encrypts `plain` with the associated data `aad`.
///
/// # Panics
/// If the machine has no randomness: no secret could be protected then.
#[must_use]
pub fn seal(key: &[u8; 32], aad: &[u8], plain: &[u8]) -> Sealed {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).expect("the machine has randomness");
    // Large enough from the start: a buffer that is reallocated would leave plaintext behind.
    let mut text = Vec::with_capacity(plain.len() + MAX_TAG_LEN);
    text.extend_from_slice(plain);
    let sealed =
        derive_value_key(key, &salt).seal_in_place_append_tag(nonce(), Aad::from(aad), &mut text);
    sealed.expect("the cipher takes far longer texts than memory holds");
    Sealed::new([&[FORMAT][..], &salt, &text].concat())
}

/// Decrypts a value; `None` unless this key sealed it with the same associated data and it is
/// unchanged.
#[must_use]
pub fn open(key: &[u8; 32], aad: &[u8], sealed: &Sealed) -> Option<Zeroizing<Vec<u8>>> {
    let (format, rest) = sealed.bytes().split_first()?;
    let (salt, text) = rest.split_at_checked(SALT_BYTES)?;
    if *format != FORMAT {
        return None;
    }
    let mut buffer = Zeroizing::new(text.to_vec());
    let opened = derive_value_key(key, salt)
        .open_in_place(nonce(), Aad::from(aad), &mut buffer)
        .ok()?
        .len();
    buffer.truncate(opened);
    Some(buffer)
}

/// Associated data from parts, each with its length in front, so that different lists of parts
/// never give the same bytes.
#[must_use]
pub fn associated_data<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    parts
        .into_iter()
        .flat_map(|part| {
            (part.len() as u64)
                .to_le_bytes()
                .into_iter()
                .chain(part.bytes())
        })
        .collect()
}

/// The key of one sealed value, derived from its salt.
fn derive_value_key(key: &[u8; 32], salt: &[u8]) -> LessSafeKey {
    let material = Zeroizing::new([key.as_slice(), salt].concat());
    let derived = Zeroizing::new(blake3::derive_key(PURPOSE, &material));
    LessSafeKey::new(
        UnboundKey::new(&CHACHA20_POLY1305, derived.as_ref()).expect("32 bytes are a key"),
    )
}

/// The nonce is constant, because every key is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

        #[test]
        fn sealed_bytes_open_only_unmodified_with_the_same_key_and_aad(
            key: [u8; 32],
            other: [u8; 32],
            aad in prop::collection::vec(any::<u8>(), 0..40),
            plain in prop::collection::vec(any::<u8>(), 0..300),
            at: prop::sample::Index,
            bit in 0u8..8,
        ) {
            let sealed = seal(&key, &aad, &plain);
            prop_assert_eq!(open(&key, &aad, &sealed).map(|text| text.to_vec()), Some(plain.clone()));
            prop_assert_eq!(sealed.bytes().len(), 1 + SALT_BYTES + plain.len() + MAX_TAG_LEN);
            if key != other {
                prop_assert!(open(&other, &aad, &sealed).is_none());
            }
            prop_assert!(open(&key, &[&aad[..], b"x"].concat(), &sealed).is_none());
            let mut flipped = sealed.bytes().to_vec();
            let at = at.index(flipped.len());
            flipped[at] ^= 1 << bit;
            prop_assert!(open(&key, &aad, &Sealed::new(flipped)).is_none());
            let cut = sealed.bytes()[..at].to_vec();
            prop_assert!(open(&key, &aad, &Sealed::new(cut)).is_none());
        }

        #[test]
        fn sealing_the_same_value_twice_gives_different_bytes(plain in prop::collection::vec(any::<u8>(), 8..100)) {
            let first = seal(&[7; 32], b"a", &plain);
            let second = seal(&[7; 32], b"a", &plain);
            prop_assert_ne!(&first, &second);
            prop_assert!(!first.bytes().windows(plain.len()).any(|window| window == plain));
        }
    }
}
