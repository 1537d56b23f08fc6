//! Authentication with tokens (JWT): the operator's rules for tokens, and the caller that a token
//! identifies.
//!
//! A token never creates anything: no tenant and no key comes into existence through one. The
//! reason for a refusal is logged under a stable name; callers get the same answer for every
//! reason. The port `Keyset` fetches the issuer's keys.

mod keys;
mod token;

pub use keys::{Algorithm, KeyPrint, PublicKey, PublicKeys};
use remem_core::sabotage;
pub use token::Refusal;

use crate::caller::{Caller, Proof};
use crate::engine::Engine;
use crate::error::Denied;
use crate::keys::is_of_the_host;
use crate::ports::{Keyset, KeysetError};
use remem_core::{PrincipalId, TenantId, Timestamp, Trust};
use std::sync::Arc;
use token::{Proven, Token};

/// The rules that a token must satisfy.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// The issuer of tokens: must equal `iss` exactly.
    pub issuer: String,
    /// The audience of tokens: must be one of `aud`.
    pub audience: String,
    /// The signature algorithms that are accepted.
    pub algorithms: Vec<Algorithm>,
    /// How far the issuer's clock may differ from this host's.
    pub leeway_ms: i64,
    /// The tenant of all tokens; if absent, each token names its own.
    pub tenant: Option<TenantId>,
    /// Name of the claim with the tenant.
    pub tenant_claim: String,
    /// Name of the claim with the scopes.
    pub scope_claim: String,
    /// Name of the claim with the user.
    pub principal_claim: String,
    /// The highest trust that callers with a token may claim for their writes.
    pub trust: Trust,
}

/// Authentication with tokens of one issuer.
#[derive(Clone)]
pub struct Bearer {
    /// The rules for the issuer's tokens.
    pub rules: TokenRules,
    /// The keys that the issuer signs with.
    pub keyset: Arc<dyn Keyset>,
}

impl Engine {
    /// Number of usable keys of the issuer; `None` if tokens are not accepted here.
    pub async fn token_keys(&self) -> Option<Result<usize, KeysetError>> {
        let bearer = self.parts.bearer.as_ref()?;
        Some(bearer.keyset.keys(false).await.map(|keys| keys.len()))
    }

    /// Authenticates with a token. `None` if the text is not a token, or tokens are not accepted
    /// here.
    pub(crate) async fn caller_by_token(&self, text: &str) -> Option<Result<Caller, Denied>> {
        let bearer = self.parts.bearer.as_ref()?;
        let token = Token::of(text)?;
        let verified = match self.proven(bearer, &token).await {
            Ok(verified) => verified,
            Err(denied) => return Some(Err(denied)),
        };
        Some(self.caller_proven(bearer, verified).await)
    }

    /// Verifies a token against the rules and the issuer's keys.
    async fn proven(&self, bearer: &Bearer, token: &Token<'_>) -> Result<Proven, Denied> {
        // Check the header first: what it alone rules out must not cause keys to be fetched.
        token.algorithm(&bearer.rules).map_err(refused)?;
        let keys = bearer.keyset.keys(false).await.map_err(no_keys)?;
        match token.prove(&bearer.rules, &keys, self.now()) {
            Err(Refusal::UnknownKey) => {
                // The issuer may have a new key. The port limits how often that causes a request.
                let keys = bearer.keyset.keys(true).await.map_err(no_keys)?;
                token
                    .prove(&bearer.rules, &keys, self.now())
                    .map_err(refused)
            }
            other => other.map_err(refused),
        }
    }

    /// The caller that a verified token identifies, if its tenant exists.
    async fn caller_proven(&self, bearer: &Bearer, verified: Proven) -> Result<Caller, Denied> {
        let tenant_info = self
            .parts
            .directory
            .tenant(&verified.tenant)
            .await
            .map_err(|_| Denied::Unavailable)?;
        let tenant = tenant_info.ok_or_else(|| refused(Refusal::Tenant))?;
        Ok(Caller {
            tenant: tenant.id,
            principal: self.principal_of(&bearer.rules.issuer, &verified.subject),
            permissions: verified.permissions,
            trust: Some(bearer.rules.trust),
            shapes: tenant.shapes,
            proof: Proof::Token {
                until: verified.until,
                key: verified.key,
            },
        })
    }

    /// Whether a token that was accepted before is still valid: its own expiry, and the presence of
    /// its key.
    pub(crate) async fn token_still_valid(
        &self,
        until: Timestamp,
        key: &KeyPrint,
    ) -> Result<(), Denied> {
        if sabotage!("streams-outlive-their-token", until <= self.now(), false) {
            return Err(Denied::Expired);
        }
        let bearer = self.parts.bearer.as_ref().ok_or(Denied::Revoked)?;
        let keys = bearer.keyset.keys(false).await.map_err(no_keys)?;
        if sabotage!("streams-outlive-the-issuer-s-key", keys.holds(key), true) {
            Ok(())
        } else {
            Err(Denied::Revoked)
        }
    }

    /// The user that a token's subject is here. A subject that is not a valid name, or could be
    /// confused with a key, the host or such a digest, becomes a digest: stable, and without the
    /// issuer's name for the person (which may be an address).
    fn principal_of(&self, issuer: &str, subject: &str) -> PrincipalId {
        let is_reserved = |name: &PrincipalId| {
            is_of_the_host(name.as_str())
                || sabotage!(
                    "a-subject-takes-a-key-s-name",
                    name.as_str().starts_with("key_"),
                    false
                )
                || name.as_str().starts_with("jwt-")
        };
        if let Some(name) = PrincipalId::parse(subject).filter(|name| !is_reserved(name)) {
            return name;
        }
        let mut digest =
            blake3::Hasher::new_keyed(&self.parts.key.derive("remembrancer token subject v1"));
        digest
            .update(&(issuer.len() as u64).to_le_bytes())
            .update(issuer.as_bytes())
            .update(subject.as_bytes());
        let hex = digest.finalize().to_hex();
        PrincipalId::parse(&format!("jwt-{}", &hex[..32])).expect("hex digits are a valid name")
    }
}

/// Logs and counts a refusal. The returned error is the same for every reason.
fn refused(refusal: Refusal) -> Denied {
    tracing::info!(reason = refusal.as_str(), "a token was refused");
    metrics::counter!("remem_tokens_refused_total", "reason" => refusal.as_str()).increment(1);
    sabotage!(
        "a-refusal-tells-why",
        Denied::Unknown,
        if refusal == Refusal::Expired {
            Denied::Expired
        } else {
            Denied::Unknown
        }
    )
}

/// Logs that the issuer's keys are not available.
fn no_keys(error: KeysetError) -> Denied {
    tracing::warn!(
        reason = error.as_str(),
        "no token can be checked: there are no keys of the issuer"
    );
    Denied::Unavailable
}

#[cfg(test)]
mod tests;
