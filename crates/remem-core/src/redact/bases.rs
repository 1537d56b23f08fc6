//! Owns the forms of a value in bases whose symbols carry no whole number of bits: ascii85, base85
//! and base58. Such a text cannot be decoded from an arbitrary offset, so the value is encoded
//! instead and its encodings are searched for.

use zeroize::Zeroizing;

use crate::sabotage;

/// Bytes of the longest value that has these forms: they are many, and keys are shorter.
const BYTES_MAX: usize = 512;
/// Encoded forms with fewer symbols than this are dropped: ordinary text would match them.
const SYMBOLS_MIN: usize = 10;
const BASE85: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The encodings of a value: one in base58, and for ascii85 and base85 one for each of the four
/// offsets that the value can have in a group of four bytes. Only whole groups are encoded.
pub(super) fn base_forms(value: &str) -> Vec<Zeroizing<String>> {
    let bytes = value.as_bytes();
    if sabotage!(
        "odd-bases-are-not-looked-for",
        bytes.len() > BYTES_MAX,
        true
    ) {
        return Vec::new();
    }
    let ascii85 = |digit: usize| char::from(b'!' + digit as u8);
    let base85 = |digit: usize| char::from(BASE85[digit]);
    let mut forms = vec![base58(bytes)];
    for from in 0..bytes.len().min(4) {
        forms.push(base85_groups(&bytes[from..], ascii85));
        forms.push(base85_groups(&bytes[from..], base85));
    }
    forms.retain(|form| form.len() >= SYMBOLS_MIN);
    forms
}

/// Encodes whole groups of four bytes as five base-85 symbols each.
fn base85_groups(bytes: &[u8], symbol: impl Fn(usize) -> char) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::with_capacity(bytes.len() * 5 / 4));
    let (whole, _) = bytes.as_chunks::<4>();
    for group in whole {
        let number = u32::from_be_bytes(*group) as usize;
        for power in [52_200_625, 614_125, 7_225, 85, 1] {
            out.push(symbol(number / power % 85));
        }
    }
    out
}

/// Encodes all bytes as one number in base58.
fn base58(bytes: &[u8]) -> Zeroizing<String> {
    let mut digits: Zeroizing<Vec<u8>> = Zeroizing::new(Vec::new());
    for &byte in bytes {
        let mut carry = u32::from(byte);
        for digit in digits.iter_mut() {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let symbols = digits.iter().rev();
    Zeroizing::new(
        symbols
            .map(|&digit| char::from(BASE58[usize::from(digit)]))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base58_and_base85_forms_match_common_encoders() {
        let forms = base_forms("Hello, World");
        let forms: Vec<&str> = forms.iter().map(|form| form.as_str()).collect();
        for written in ["87cURD_*#4DfTZ)", "NM&qnZ!92JZ*pv8"] {
            assert!(forms.contains(&written), "{written} in {forms:?}");
        }
        assert_eq!(base58(b"Hello World!").as_str(), "2NEpo7TZRRrLZSi2U");
        assert!(base_forms(&"a".repeat(BYTES_MAX + 1)).is_empty());
    }
}
