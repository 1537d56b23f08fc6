//! One token: parsed, checked against the rules and the keys, and turned into what it proves. Pure:
//! keys and the time are arguments.
//!
//! Nothing in a token is used before its signature is verified, except the header, to find the key.

use super::TokenRules;
use super::keys::{Algorithm, KeyFingerprint, PublicKey, PublicKeys};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_core::sabotage;
use remem_core::strict_json;
use remem_core::{Permission, TenantId, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Bytes of a token, at most.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The accepted values of `typ`. Other kinds of tokens (for logging out, say) are signed with the
/// same keys and mean something else.
const TOKEN_TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Why a token was not accepted. For the log only: callers get none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// It is longer than any token needs to be.
    TooLarge,
    /// Its signature algorithm is not on the list, or it is not signed.
    Algorithm,
    /// It is some other kind of token.
    Type,
    /// It requires an extension that this host does not know.
    Critical,
    /// No key, or more than one, matches the key id in its header.
    UnknownKey,
    /// The key does not support the token's algorithm.
    KeyMismatch,
    /// The signature does not verify with the key.
    Signature,
    /// The signed payload cannot be parsed.
    Malformed,
    /// It states no expiry.
    NoExpiry,
    /// Its expiry has passed.
    Expired,
    /// It is not valid yet.
    NotYet,
    /// Another issuer made it.
    Issuer,
    /// It was made for another audience.
    Audience,
    /// It names no tenant, or one that does not exist.
    Tenant,
    /// It names no user.
    Principal,
    /// It grants none of this host's permissions.
    NoPermission,
}

impl TokenRefusal {
    /// The stable name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TokenRefusal::TooLarge => "too_large",
            TokenRefusal::Algorithm => "algorithm",
            TokenRefusal::Type => "type",
            TokenRefusal::Critical => "critical_extension",
            TokenRefusal::UnknownKey => "unknown_key",
            TokenRefusal::KeyMismatch => "key_mismatch",
            TokenRefusal::Signature => "signature",
            TokenRefusal::Malformed => "malformed",
            TokenRefusal::NoExpiry => "no_expiry",
            TokenRefusal::Expired => "expired",
            TokenRefusal::NotYet => "not_yet_valid",
            TokenRefusal::Issuer => "issuer",
            TokenRefusal::Audience => "audience",
            TokenRefusal::Tenant => "tenant",
            TokenRefusal::Principal => "principal",
            TokenRefusal::NoPermission => "no_permission",
        }
    }
}

/// The header of a token.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Whether the field is present at all, with any value.
    #[serde(default, deserialize_with = "is_present")]
    crit: bool,
}

/// Reads whether a field is present. An `Option` would take `null` for an absent field.
fn is_present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(reader)
        .map(|_| sabotage!("a-null-extension-is-none", true, false))
}

/// A text that is shaped like a token: three parts, the first of which is a header.
pub(super) struct ParsedToken<'a> {
    header: Header,
    text: &'a str,
    /// The signed text: header and payload as received.
    signed: &'a str,
    payload: &'a str,
    signature: &'a str,
}

/// The content of a verified token.
pub(super) struct VerifiedToken {
    pub subject: String,
    pub tenant: TenantId,
    pub permissions: Vec<Permission>,
    pub until: Timestamp,
    pub key: KeyFingerprint,
}

impl<'a> ParsedToken<'a> {
    /// Parses a text; `None` if it is not shaped like a token, such as an API key with dots in it.
    pub(super) fn parse(text: &'a str) -> Option<ParsedToken<'a>> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed
            .split_once('.')
            .filter(|(_, payload)| !payload.contains('.'))?;
        let header = strict_json::from_slice(&decode(header)?).ok()?;
        Some(ParsedToken {
            header,
            text,
            signed,
            payload,
            signature,
        })
    }

    /// Verifies the token as of `now`.
    pub(super) fn verify(
        &self,
        rules: &TokenRules,
        keys: &PublicKeys,
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenRefusal> {
        let algorithm = self.algorithm(rules)?;
        let key = self.key(keys, algorithm)?;
        let signature = decode(self.signature).ok_or(TokenRefusal::Signature)?;
        if !key.verify(algorithm, self.signed.as_bytes(), &signature) {
            return Err(TokenRefusal::Signature);
        }
        let claims: Option<Map<String, Value>> =
            decode(self.payload).and_then(|payload| serde_json::from_slice(&payload).ok());
        let claims = claims.ok_or(TokenRefusal::Malformed)?;
        let until = check_time(&claims, rules, now)?;
        if sabotage!(
            "anybody-issues-tokens",
            claims.get("iss").and_then(Value::as_str) != Some(rules.issuer.as_str()),
            false
        ) {
            return Err(TokenRefusal::Issuer);
        }
        if sabotage!(
            "tokens-for-somebody-else",
            !strings(claims.get("aud")).any(|audience| audience == rules.audience),
            false
        ) {
            return Err(TokenRefusal::Audience);
        }
        let tenant = rules
            .tenant
            .clone()
            .or_else(|| TenantId::parse(claims.get(&rules.tenant_claim)?.as_str()?));
        let subject = claims
            .get(&rules.principal_claim)
            .and_then(Value::as_str)
            .filter(|subject| !subject.trim().is_empty());
        Ok(VerifiedToken {
            tenant: tenant.ok_or(TokenRefusal::Tenant)?,
            subject: subject.ok_or(TokenRefusal::Principal)?.to_owned(),
            permissions: permissions(claims.get(&rules.scope_claim))?,
            until,
            key: key.fingerprint(),
        })
    }

    /// The signature algorithm, if it is on the list. Looks only at the header.
    pub(super) fn algorithm(&self, rules: &TokenRules) -> Result<Algorithm, TokenRefusal> {
        if self.text.len() > TOKEN_BYTES_MAX {
            return Err(TokenRefusal::TooLarge);
        }
        let algorithm = sabotage!(
            "algorithms-off-the-list",
            Algorithm::parse(&self.header.alg)
                .filter(|algorithm| rules.algorithms.contains(algorithm)),
            Algorithm::parse(&self.header.alg)
        );
        if self
            .header
            .typ
            .as_ref()
            .is_some_and(|kind| !TOKEN_TYPES.contains(&kind.to_ascii_lowercase().as_str()))
        {
            return Err(TokenRefusal::Type);
        }
        if sabotage!("extensions-are-passed-over", self.header.crit, false) {
            return Err(TokenRefusal::Critical);
        }
        algorithm.ok_or(TokenRefusal::Algorithm)
    }

    /// The one key that the token can be signed with.
    fn key<'k>(
        &self,
        keys: &'k PublicKeys,
        algorithm: Algorithm,
    ) -> Result<&'k PublicKey, TokenRefusal> {
        let candidates = keys.candidates(self.header.kid.as_deref());
        let mut fitting = candidates.iter().filter(|key| key.supports(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (None, _) if !candidates.is_empty() => Err(TokenRefusal::KeyMismatch),
            _ => Err(TokenRefusal::UnknownKey),
        }
    }
}

/// Decodes base64url without padding.
fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

/// Checks the times and returns the expiry. The leeway allows for clocks that differ; it does not
/// extend the expiry.
fn check_time(
    claims: &Map<String, Value>,
    rules: &TokenRules,
    now: Timestamp,
) -> Result<Timestamp, TokenRefusal> {
    let until = instant(claims.get("exp").ok_or(TokenRefusal::NoExpiry)?)?;
    if sabotage!(
        "tokens-never-end",
        until.0.saturating_add(rules.leeway_ms) <= now.0,
        false
    ) {
        return Err(TokenRefusal::Expired);
    }
    let from = claims.get("nbf").map(instant).transpose()?;
    if from.is_some_and(|from| {
        sabotage!(
            "tokens-begin-at-any-time",
            from.0.saturating_sub(rules.leeway_ms) > now.0,
            from.0 < 0
        )
    }) {
        return Err(TokenRefusal::NotYet);
    }
    Ok(until)
}

/// Converts seconds since 1970. Fractions, which some issuers write, are dropped.
fn instant(seconds: &Value) -> Result<Timestamp, TokenRefusal> {
    let whole = seconds.as_i64().or_else(|| {
        seconds
            .as_f64()
            .filter(|s| (0.0..1e15).contains(s))
            .map(|s| s as i64)
    });
    whole
        .filter(|s| *s >= 0)
        .and_then(|s| s.checked_mul(1_000))
        .map(Timestamp)
        .ok_or(TokenRefusal::Malformed)
}

/// The strings in a value that is one string or an array.
fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let several = value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    value
        .and_then(Value::as_str)
        .into_iter()
        .chain(several.iter().filter_map(Value::as_str))
}

/// The permissions that a scope claim grants. Names that mean something elsewhere are ignored.
fn permissions(value: Option<&Value>) -> Result<Vec<Permission>, TokenRefusal> {
    let names = strings(value).flat_map(str::split_ascii_whitespace);
    let mut permissions: Vec<Permission> = names.filter_map(|name| name.parse().ok()).collect();
    permissions.sort_unstable();
    permissions.dedup();
    if permissions.is_empty() {
        Err(TokenRefusal::NoPermission)
    } else {
        Ok(permissions)
    }
}
