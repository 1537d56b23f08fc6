//! Whole numbers of requests: none is larger than what both stores can hold.

use serde::{Deserialize, Deserializer, de::Error, de::Unexpected};

/// Largest whole number that a request can hold: that of a signed number of 64 bits.
pub const MAX: u64 = i64::MAX as u64;

/// Reads a whole number that a request may leave out.
///
/// # Errors
///
/// If it is no whole number from 0 to [`MAX`].
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(deserializer)? {
        Some(number) if number > MAX => {
            let expected = &"a whole number up to 9223372036854775807";
            Err(D::Error::invalid_value(
                Unexpected::Unsigned(number),
                expected,
            ))
        }
        number => Ok(number),
    }
}

/// The whole number that a text is, which stands where a caller may also give another word; `None`
/// if it is none, or one larger than [`MAX`].
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Request {
        #[serde(default, deserialize_with = "optional")]
        number: Option<u64>,
    }

    #[test]
    fn numbers_beyond_the_store_range_are_rejected() {
        let read = |text: &str| serde_json::from_str::<Request>(text).map(|read| read.number);
        assert_eq!(read("{}").unwrap(), None);
        assert_eq!(read(r#"{"number": null}"#).unwrap(), None);
        assert_eq!(
            read(r#"{"number": 9223372036854775807}"#).unwrap(),
            Some(MAX)
        );
        for beyond in [
            "9223372036854775808",
            "18446744073709551616",
            "-1",
            "1.5",
            "\"1\"",
        ] {
            let refused = read(&format!("{{\"number\": {beyond}}}"));
            assert!(refused.is_err(), "{beyond}");
        }
        assert_eq!(parse("9223372036854775807"), Some(MAX));
        assert_eq!(parse("9223372036854775808"), None);
    }
}
