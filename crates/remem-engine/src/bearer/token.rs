//! One token: read, held against the rules and the keys, and turned into what it proves. Pure: keys
//! and the time are given.
//!
//! Nothing in a token is believed before its signature is: until then only its header is looked at,
//! to find the key.

use super::TokenRules;
use super::keys::{Algorithm, KeyPrint, PublicKey, PublicKeys};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_core::objects;
use remem_core::sabotage;
use remem_core::{Permission, TenantId, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Bytes of a token at the most.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// What a token may say it is. Others (for logging out, say) are signed with the same keys and mean
/// something else.
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Why a token was not accepted. For the log: a caller is told none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is longer than any token needs to be.
    TooLarge,
    /// It is signed in a way that is not on the list, or not at all.
    Algorithm,
    /// It is some other kind of token.
    Type,
    /// It demands something that this host does not know.
    Critical,
    /// No key, or more than one, is the one it means.
    UnknownKey,
    /// Its key makes no such signatures.
    KeyMismatch,
    /// The signature is not the key's.
    Signature,
    /// What was signed cannot be read.
    Malformed,
    /// It does not say until when it is good.
    NoExpiry,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
    NotYet,
    /// Somebody else made it.
    Issuer,
    /// It was made for somebody else.
    Audience,
    /// It names no tenant, or none that there is.
    Tenant,
    /// It does not say who it speaks for.
    Principal,
    /// It allows nothing that there is to do here.
    NoPermission,
}

impl Refusal {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::TooLarge => "too_large",
            Refusal::Algorithm => "algorithm",
            Refusal::Type => "type",
            Refusal::Critical => "critical_extension",
            Refusal::UnknownKey => "unknown_key",
            Refusal::KeyMismatch => "key_mismatch",
            Refusal::Signature => "signature",
            Refusal::Malformed => "malformed",
            Refusal::NoExpiry => "no_expiry",
            Refusal::Expired => "expired",
            Refusal::NotYet => "not_yet_valid",
            Refusal::Issuer => "issuer",
            Refusal::Audience => "audience",
            Refusal::Tenant => "tenant",
            Refusal::Principal => "principal",
            Refusal::NoPermission => "no_permission",
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Whether there is such a field at all, whatever it holds.
    #[serde(default, deserialize_with = "is_there")]
    crit: bool,
}

/// An `Option` would take `null` for a field that is not there.
fn is_there<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(reader)
        .map(|_| sabotage!("a-null-extension-is-none", true, false))
}

/// What looks like a token: three parts, the first of which is a header.
pub(super) struct Token<'a> {
    header: Header,
    text: &'a str,
    /// What is signed: header and payload as they came.
    signed: &'a str,
    payload: &'a str,
    signature: &'a str,
}

/// What a token proves.
pub(super) struct Proven {
    pub subject: String,
    pub tenant: TenantId,
    pub permissions: Vec<Permission>,
    pub until: Timestamp,
    pub key: KeyPrint,
}

impl<'a> Token<'a> {
    /// `None` for what is not shaped like one, such as an API key that somebody chose with dots in
    /// it.
    pub(super) fn of(text: &'a str) -> Option<Token<'a>> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed
            .split_once('.')
            .filter(|(_, payload)| !payload.contains('.'))?;
        let header = objects::from_slice(&decoded(header)?).ok()?;
        Some(Token {
            header,
            text,
            signed,
            payload,
            signature,
        })
    }

    /// What it proves, at `now`.
    pub(super) fn prove(
        &self,
        rules: &TokenRules,
        keys: &PublicKeys,
        now: Timestamp,
    ) -> Result<Proven, Refusal> {
        let algorithm = self.algorithm(rules)?;
        let key = self.key(keys, algorithm)?;
        let signature = decoded(self.signature).ok_or(Refusal::Signature)?;
        if !key.signed(algorithm, self.signed.as_bytes(), &signature) {
            return Err(Refusal::Signature);
        }
        let claims: Option<Map<String, Value>> =
            decoded(self.payload).and_then(|payload| serde_json::from_slice(&payload).ok());
        let claims = claims.ok_or(Refusal::Malformed)?;
        let until = in_time(&claims, rules, now)?;
        if sabotage!(
            "anybody-issues-tokens",
            claims.get("iss").and_then(Value::as_str) != Some(rules.issuer.as_str()),
            false
        ) {
            return Err(Refusal::Issuer);
        }
        if sabotage!(
            "tokens-for-somebody-else",
            !texts(claims.get("aud")).any(|audience| audience == rules.audience),
            false
        ) {
            return Err(Refusal::Audience);
        }
        let tenant = rules
            .tenant
            .clone()
            .or_else(|| TenantId::parse(claims.get(&rules.tenant_claim)?.as_str()?));
        let subject = claims
            .get(&rules.principal_claim)
            .and_then(Value::as_str)
            .filter(|subject| !subject.trim().is_empty());
        Ok(Proven {
            tenant: tenant.ok_or(Refusal::Tenant)?,
            subject: subject.ok_or(Refusal::Principal)?.to_owned(),
            permissions: permissions(claims.get(&rules.scope_claim))?,
            until,
            key: key.print(),
        })
    }

    /// How it says it is signed, if that is on the list. Looks at nothing but the header.
    pub(super) fn algorithm(&self, rules: &TokenRules) -> Result<Algorithm, Refusal> {
        if self.text.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::TooLarge);
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
            .is_some_and(|kind| !TYPES.contains(&kind.to_ascii_lowercase().as_str()))
        {
            return Err(Refusal::Type);
        }
        if sabotage!("extensions-are-passed-over", self.header.crit, false) {
            return Err(Refusal::Critical);
        }
        algorithm.ok_or(Refusal::Algorithm)
    }

    /// The one key that it means.
    fn key<'k>(
        &self,
        keys: &'k PublicKeys,
        algorithm: Algorithm,
    ) -> Result<&'k PublicKey, Refusal> {
        let named = keys.named(self.header.kid.as_deref());
        let mut fitting = named.iter().filter(|key| key.fits(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (None, _) if !named.is_empty() => Err(Refusal::KeyMismatch),
            _ => Err(Refusal::UnknownKey),
        }
    }
}

fn decoded(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

/// Until when it is good. The leeway is for clocks that differ; it is no part of the token's time.
fn in_time(
    claims: &Map<String, Value>,
    rules: &TokenRules,
    now: Timestamp,
) -> Result<Timestamp, Refusal> {
    let until = instant(claims.get("exp").ok_or(Refusal::NoExpiry)?)?;
    if sabotage!(
        "tokens-never-end",
        until.0.saturating_add(rules.leeway_ms) <= now.0,
        false
    ) {
        return Err(Refusal::Expired);
    }
    let from = claims.get("nbf").map(instant).transpose()?;
    if from.is_some_and(|from| {
        sabotage!(
            "tokens-begin-at-any-time",
            from.0.saturating_sub(rules.leeway_ms) > now.0,
            from.0 < 0
        )
    }) {
        return Err(Refusal::NotYet);
    }
    Ok(until)
}

/// Seconds since 1970. Fractions are dropped: some issuers write them.
fn instant(seconds: &Value) -> Result<Timestamp, Refusal> {
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
        .ok_or(Refusal::Malformed)
}

/// A text, or several.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let several = value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    value
        .and_then(Value::as_str)
        .into_iter()
        .chain(several.iter().filter_map(Value::as_str))
}

/// What it allows, of what there is to do here. Names that mean something elsewhere are passed
/// over.
fn permissions(value: Option<&Value>) -> Result<Vec<Permission>, Refusal> {
    let names = texts(value).flat_map(str::split_ascii_whitespace);
    let mut permissions: Vec<Permission> = names.filter_map(|name| name.parse().ok()).collect();
    permissions.sort_unstable();
    permissions.dedup();
    if permissions.is_empty() {
        Err(Refusal::NoPermission)
    } else {
        Ok(permissions)
    }
}
