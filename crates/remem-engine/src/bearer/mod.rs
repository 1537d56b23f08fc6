//! Authentication with tokens (JWT): the operator's rules for tokens, and the caller that a token
//! identifies.
//!
//! A token never creates anything: no tenant and no key comes into existence through one. The
//! reason for a refusal is logged under a stable name; callers get the same answer for every
//! reason. The port `Keyset` fetches the issuer's keys.

mod keys;
mod token;

pub use keys::{Algorithm, KeyFingerprint, PublicKey, PublicKeys};
use remem_core::sabotage;
pub use token::TokenRefusal;

use crate::caller::{Caller, Credential};
use crate::engine::Engine;
use crate::error::AuthError;
use crate::keys::is_reserved_principal;
use crate::ports::{Keyset, KeysetError};
use remem_core::{PrincipalId, TenantId, Timestamp, Trust};
use std::sync::Arc;
use token::{ParsedToken, VerifiedToken};

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
pub struct BearerAuth {
    /// The rules for the issuer's tokens.
    pub rules: TokenRules,
    /// The keys that the issuer signs with.
    pub keyset: Arc<dyn Keyset>,
}

impl Engine {
    /// Number of usable keys of the issuer; `None` if tokens are not accepted here.
    pub async fn count_token_keys(&self) -> Option<Result<usize, KeysetError>> {
        let bearer = self.parts.bearer.as_ref()?;
        Some(bearer.keyset.keys(false).await.map(|keys| keys.len()))
    }

    /// Authenticates with a token. `None` if the text is not a token, or tokens are not accepted
    /// here.
    pub(crate) async fn caller_by_token(&self, text: &str) -> Option<Result<Caller, AuthError>> {
        let bearer = self.parts.bearer.as_ref()?;
        let token = ParsedToken::parse(text)?;
        let verified = match self.verify_token(bearer, &token).await {
            Ok(verified) => verified,
            Err(denied) => return Some(Err(denied)),
        };
        Some(self.caller_of_token(bearer, verified).await)
    }

    /// Verifies a token against the rules and the issuer's keys.
    async fn verify_token(
        &self,
        bearer: &BearerAuth,
        token: &ParsedToken<'_>,
    ) -> Result<VerifiedToken, AuthError> {
        // Check the header first: what it alone rules out must not cause keys to be fetched.
        token.algorithm(&bearer.rules).map_err(log_refusal)?;
        let keys = bearer.keyset.keys(false).await.map_err(keys_unavailable)?;
        match token.verify(&bearer.rules, &keys, self.now()) {
            Err(TokenRefusal::UnknownKey) => {
                // The issuer may have a new key. The port limits how often that causes a request.
                let keys = bearer.keyset.keys(true).await.map_err(keys_unavailable)?;
                token
                    .verify(&bearer.rules, &keys, self.now())
                    .map_err(log_refusal)
            }
            other => other.map_err(log_refusal),
        }
    }

    /// The caller that a verified token identifies, if its tenant exists.
    async fn caller_of_token(
        &self,
        bearer: &BearerAuth,
        verified: VerifiedToken,
    ) -> Result<Caller, AuthError> {
        let tenant_info = self
            .parts
            .directory
            .tenant(&verified.tenant)
            .await
            .map_err(|_| AuthError::Unavailable)?;
        let tenant = tenant_info.ok_or_else(|| log_refusal(TokenRefusal::Tenant))?;
        Ok(Caller {
            tenant: tenant.id,
            principal: self.principal_of_subject(&bearer.rules.issuer, &verified.subject),
            permissions: verified.permissions,
            trust: Some(bearer.rules.trust),
            shapes: tenant.shapes,
            credential: Credential::Token {
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
        key: &KeyFingerprint,
    ) -> Result<(), AuthError> {
        if sabotage!("streams-outlive-their-token", until <= self.now(), false) {
            return Err(AuthError::Expired);
        }
        let bearer = self.parts.bearer.as_ref().ok_or(AuthError::Revoked)?;
        let keys = bearer.keyset.keys(false).await.map_err(keys_unavailable)?;
        if sabotage!("streams-outlive-the-issuer-s-key", keys.contains(key), true) {
            Ok(())
        } else {
            Err(AuthError::Revoked)
        }
    }

    /// The user that a token's subject is here. A subject that is not a valid name, or could be
    /// confused with a key, the host or such a digest, becomes a digest: stable, and without the
    /// issuer's name for the person (which may be an address).
    fn principal_of_subject(&self, issuer: &str, subject: &str) -> PrincipalId {
        let is_reserved = |name: &PrincipalId| {
            is_reserved_principal(name.as_str())
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
            blake3::Hasher::new_keyed(&self.parts.host_key.derive("remembrancer token subject v1"));
        digest
            .update(&(issuer.len() as u64).to_le_bytes())
            .update(issuer.as_bytes())
            .update(subject.as_bytes());
        let hex = digest.finalize().to_hex();
        PrincipalId::parse(&format!("jwt-{}", &hex[..32])).expect("hex digits are a valid name")
    }
}

/// Logs and counts a refusal. The returned error is the same for every reason.
fn log_refusal(refusal: TokenRefusal) -> AuthError {
    tracing::info!(reason = refusal.as_str(), "a token was refused");
    metrics::counter!("remem_tokens_refused_total", "reason" => refusal.as_str()).increment(1);
    sabotage!(
        "a-refusal-tells-why",
        AuthError::Unknown,
        if refusal == TokenRefusal::Expired {
            AuthError::Expired
        } else {
            AuthError::Unknown
        }
    )
}

/// Logs that the issuer's keys are not available.
fn keys_unavailable(error: KeysetError) -> AuthError {
    tracing::warn!(
        reason = error.as_str(),
        "no token can be checked: there are no keys of the issuer"
    );
    AuthError::Unavailable
}

#[cfg(test)]
mod tests;
