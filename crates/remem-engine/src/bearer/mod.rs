//! Tokens (JWT) as a second way in: what the operator says about them, and the caller that one
//! proves to be.
//!
//! A token is never a reason to make anything: no tenant and no key comes into being by one. Why it
//! was refused is for the log, as a stable name; to the caller all refusals are the same. Fetching
//! keys is the business of the port `Keyset`.

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

/// What a token must be.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// Who makes tokens: `iss`, letter by letter.
    pub issuer: String,
    /// Who they are for: one of `aud`.
    pub audience: String,
    /// How they may be signed.
    pub algorithms: Vec<Algorithm>,
    /// How far the issuer's clock may be off.
    pub leeway_ms: i64,
    /// The tenant of all tokens; if absent, each names its own.
    pub tenant: Option<TenantId>,
    /// The claim with the tenant.
    pub tenant_claim: String,
    /// The claim with the scopes.
    pub scope_claim: String,
    /// The claim that says who it speaks for.
    pub principal_claim: String,
    /// The most that whoever comes with one may vouch for.
    pub trust: Trust,
}

/// Tokens as a way in.
#[derive(Clone)]
pub struct Bearer {
    /// What they must be.
    pub rules: TokenRules,
    /// The keys they are signed with.
    pub keyset: Arc<dyn Keyset>,
}

impl Engine {
    /// How many keys of the issuer can be used now; `None` if tokens are not accepted here.
    pub async fn token_keys(&self) -> Option<Result<usize, KeysetError>> {
        let bearer = self.parts.bearer.as_ref()?;
        Some(bearer.keyset.keys(false).await.map(|keys| keys.len()))
    }

    /// The caller that a token proves to be; `None` for what is no token, or where none is
    /// accepted.
    pub(crate) async fn caller_by_token(&self, text: &str) -> Option<Result<Caller, Denied>> {
        let bearer = self.parts.bearer.as_ref()?;
        let token = Token::of(text)?;
        let proven = match self.proven(bearer, &token).await {
            Ok(proven) => proven,
            Err(denied) => return Some(Err(denied)),
        };
        Some(self.caller_proven(bearer, proven).await)
    }

    async fn proven(&self, bearer: &Bearer, token: &Token<'_>) -> Result<Proven, Denied> {
        // Whatever can be refused by itself does not reach for keys.
        token.algorithm(&bearer.rules).map_err(refused)?;
        let keys = bearer.keyset.keys(false).await.map_err(no_keys)?;
        match token.prove(&bearer.rules, &keys, self.now()) {
            Err(Refusal::UnknownKey) => {
                // The issuer may have a new one. How often that is worth a look is the port's to
                // say.
                let keys = bearer.keyset.keys(true).await.map_err(no_keys)?;
                token
                    .prove(&bearer.rules, &keys, self.now())
                    .map_err(refused)
            }
            other => other.map_err(refused),
        }
    }

    async fn caller_proven(&self, bearer: &Bearer, proven: Proven) -> Result<Caller, Denied> {
        let found = self
            .parts
            .directory
            .tenant(&proven.tenant)
            .await
            .map_err(|_| Denied::Unavailable)?;
        let tenant = found.ok_or_else(|| refused(Refusal::Tenant))?;
        Ok(Caller {
            tenant: tenant.id,
            principal: self.principal_of(&bearer.rules.issuer, &proven.subject),
            permissions: proven.permissions,
            trust: Some(bearer.rules.trust),
            shapes: tenant.shapes,
            proof: Proof::Token {
                until: proven.until,
                key: proven.key,
            },
        })
    }

    /// Whether a token that was accepted once is still good: its own time, and its key's.
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

    /// Who a subject is here. A name that cannot be one, or that would be taken for a key, the host
    /// or such a digest, gets a digest: stable, and without what the issuer calls people (an
    /// address, say).
    fn principal_of(&self, issuer: &str, subject: &str) -> PrincipalId {
        let taken = |name: &PrincipalId| {
            is_of_the_host(name.as_str())
                || sabotage!(
                    "a-subject-takes-a-key-s-name",
                    name.as_str().starts_with("key_"),
                    false
                )
                || name.as_str().starts_with("jwt-")
        };
        if let Some(name) = PrincipalId::parse(subject).filter(|name| !taken(name)) {
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

/// To the caller, no refusal differs from another.
fn refused(why: Refusal) -> Denied {
    tracing::info!(reason = why.as_str(), "a token was refused");
    metrics::counter!("remem_tokens_refused_total", "reason" => why.as_str()).increment(1);
    sabotage!(
        "a-refusal-tells-why",
        Denied::Unknown,
        if why == Refusal::Expired {
            Denied::Expired
        } else {
            Denied::Unknown
        }
    )
}

fn no_keys(error: KeysetError) -> Denied {
    tracing::warn!(
        reason = error.as_str(),
        "no token can be checked: there are no keys of the issuer"
    );
    Denied::Unavailable
}

#[cfg(test)]
mod tests;
