//! Instants on the wire: RFC 3339 in UTC with milliseconds. Requests may also give milliseconds
//! since 1970.

use remem_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::borrow::Cow;

/// Instant in the API's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant(pub Timestamp);

const LAST_MS: i64 = Timestamp::LAST.0;

impl Instant {
    /// Parses RFC 3339 text; `None` if it is malformed, before 1970 or after the year 9999.
    #[must_use]
    pub fn parse(text: &str) -> Option<Instant> {
        let ms = text.parse::<jiff::Timestamp>().ok()?.as_millisecond();
        (0..=LAST_MS)
            .contains(&ms)
            .then_some(Instant(Timestamp(ms)))
    }
}

impl std::fmt::Display for Instant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.rfc3339())
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Instant, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum InstantForm<'a> {
            Milliseconds(i64),
            #[serde(borrow)]
            Text(Cow<'a, str>),
        }
        // The message names the rule, not the value: a client may have put anything here.
        let malformed = || {
            D::Error::custom(
                "an instant must be RFC 3339 text or milliseconds since 1970, up to the year 9999",
            )
        };
        match InstantForm::deserialize(deserializer).map_err(|_| malformed())? {
            InstantForm::Milliseconds(ms) if (0..=LAST_MS).contains(&ms) => {
                Ok(Instant(Timestamp(ms)))
            }
            InstantForm::Milliseconds(_) => Err(malformed()),
            InstantForm::Text(text) => Instant::parse(&text).ok_or_else(malformed),
        }
    }
}

impl utoipa::PartialSchema for Instant {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(
                utoipa::openapi::KnownFormat::DateTime,
            )))
            .into()
    }
}

impl utoipa::ToSchema for Instant {}

impl schemars::JsonSchema for Instant {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Instant".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_text_or_number_and_written_as_text() {
        let text: Instant = serde_json::from_str("\"2026-11-15T09:00:00.5+01:00\"").unwrap();
        let number: Instant = serde_json::from_str("1794729600500").unwrap();
        assert_eq!(
            (text, text.to_string().as_str()),
            (number, "2026-11-15T08:00:00.500Z")
        );
        assert_eq!(
            Instant(Timestamp(0)).to_string(),
            "1970-01-01T00:00:00.000Z"
        );
        assert_eq!(
            Instant(Timestamp(i64::MAX)).to_string(),
            "9999-12-30T21:59:59.999Z"
        );
    }

    #[test]
    fn invalid_instants_are_rejected_without_echoing_them() {
        for bad in [
            "\"soon-canary\"",
            "-1",
            "1e300",
            "{}",
            "253402300800000",
            "\"2026-13-01T00:00:00Z\"",
            "1.5",
        ] {
            let error = serde_json::from_str::<Instant>(bad)
                .unwrap_err()
                .to_string();
            assert!(
                !error.contains("canary") && error.contains("RFC 3339"),
                "{bad}: {error}"
            );
        }
    }
}
