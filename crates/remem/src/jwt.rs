//! Turns the settings `auth.jwt.*` into rules for tokens. Half a section is refused: a host that
//! seems to accept tokens and does not, or accepts tokens of any issuer, is worse than one that
//! does not start. Errors name settings, never their values.

use crate::config;
use crate::endpoint::is_loopback;
use crate::keyset;
use anyhow::{Context, bail, ensure};
use remem_core::sabotage;
use remem_core::{TenantId, Trust};
use remem_engine::Engine;
use remem_engine::bearer::{Algorithm, BearerAuth, TokenRules};
use remem_engine::ports::Keyset;
use reqwest::Url;
use std::sync::Arc;

const LEEWAY_SECONDS_MAX: u32 = 300;
const CLAIM_CHARS_MAX: usize = 200;

/// Returns the rules and keys for tokens; `None` if the configuration accepts no tokens.
pub fn token_verifier(config: &config::JwtConfig) -> anyhow::Result<Option<BearerAuth>> {
    let needed = [
        ("issuer", &config.issuer),
        ("audience", &config.audience),
        ("jwks", &config.jwks),
    ];
    if needed.iter().all(|(_, value)| value.is_none()) {
        sabotage!(
            "half-a-section-is-taken-for-none",
            ensure!(
                *config == config::JwtConfig::default(),
                "auth.jwt needs auth.jwt.issuer, auth.jwt.audience and auth.jwt.jwks"
            ),
            ensure!(
                true,
                "auth.jwt needs auth.jwt.issuer, auth.jwt.audience and auth.jwt.jwks"
            )
        );
        return Ok(None);
    }
    if let Some((missing, _)) = needed
        .iter()
        .find(|(_, value)| value.as_ref().is_none_or(|value| value.trim().is_empty()))
    {
        bail!("auth.jwt is only half configured: auth.jwt.{missing} is missing");
    }
    let (Some(issuer), Some(audience), Some(jwks)) =
        (config.issuer.clone(), config.audience.clone(), &config.jwks)
    else {
        bail!("auth.jwt is only half configured");
    };
    ensure!(
        config.leeway_seconds <= LEEWAY_SECONDS_MAX,
        "auth.jwt.leeway_seconds must be at most {LEEWAY_SECONDS_MAX}"
    );
    let rules = TokenRules {
        issuer,
        audience,
        algorithms: algorithms(&config.algorithms)?,
        leeway_ms: i64::from(config.leeway_seconds) * 1_000,
        tenant: tenant(config)?,
        tenant_claim: claim("tenant_claim", &config.tenant_claim)?,
        scope_claim: claim("scope_claim", &config.scope_claim)?,
        principal_claim: claim("principal_claim", &config.principal_claim)?,
        trust: trust(&config.trust)?,
    };
    Ok(Some(BearerAuth {
        rules,
        keyset: open_keyset(jwks)?,
    }))
}

/// Checks before the host serves that the keys can be read. A file that cannot be read is a mistake
/// in the configuration and stops the start; a server that does not answer may come back, and only
/// causes a warning.
pub async fn check_keys(config: &config::JwtConfig, engine: &Engine) -> anyhow::Result<()> {
    match engine.count_token_keys().await {
        None => Ok(()),
        Some(Ok(0)) => {
            tracing::warn!(
                "auth.jwt.jwks holds no key that can be used: every token will be refused"
            );
            Ok(())
        }
        Some(Ok(_)) => Ok(()),
        Some(Err(_)) if config.jwks.as_deref().is_some_and(is_url) => {
            tracing::warn!(
                "tokens cannot be checked until the document that auth.jwt.jwks names can be fetched"
            );
            Ok(())
        }
        Some(Err(error)) => bail!(
            "the file that auth.jwt.jwks names cannot be used as a JWKS document: {}",
            error.as_str()
        ),
    }
}

/// Parses the names of algorithms. None of them needs a shared secret.
fn algorithms(names: &[String]) -> anyhow::Result<Vec<Algorithm>> {
    let known = Algorithm::ALL.map(Algorithm::as_str).join(", ");
    ensure!(
        !names.is_empty(),
        "auth.jwt.algorithms must name at least one of {known}"
    );
    let read = |name: &String| {
        Algorithm::parse(name)
            .with_context(|| format!("auth.jwt.algorithms may name {known}, and nothing else"))
    };
    names.iter().map(read).collect()
}

fn tenant(config: &config::JwtConfig) -> anyhow::Result<Option<TenantId>> {
    let Some(name) = &config.tenant else {
        return Ok(None);
    };
    let claim_is_default = config.tenant_claim == config::JwtConfig::default().tenant_claim;
    ensure!(
        claim_is_default,
        "auth.jwt.tenant and auth.jwt.tenant_claim are both set; keep one of them"
    );
    Ok(Some(
        TenantId::parse(name).context("auth.jwt.tenant is not the name of a tenant")?,
    ))
}

fn claim(setting: &str, name: &str) -> anyhow::Result<String> {
    let chars = name.chars().count();
    let valid = (1..=CLAIM_CHARS_MAX).contains(&chars) && !name.contains(char::is_control);
    ensure!(
        valid,
        "auth.jwt.{setting} must be 1 to {CLAIM_CHARS_MAX} visible characters"
    );
    Ok(name.to_owned())
}

fn trust(name: &str) -> anyhow::Result<Trust> {
    let known = Trust::ALL.map(Trust::as_str).join(", ");
    let trust = name.parse().ok();
    trust.with_context(|| format!("auth.jwt.trust must be one of {known}"))
}

fn is_url(jwks: &str) -> bool {
    jwks.contains("://")
}

/// Returns the keys of the file or URL that `auth.jwt.jwks` names. An attacker who can change the
/// document on its way can make valid tokens, so plain HTTP is allowed only from this machine.
fn open_keyset(jwks: &str) -> anyhow::Result<Arc<dyn Keyset>> {
    if !is_url(jwks) {
        return Ok(Arc::new(keyset::from_file(jwks.into())));
    }
    let url: Option<Url> = jwks
        .parse()
        .ok()
        .filter(|_| !jwks.contains(|c: char| c.is_control() || c.is_whitespace()));
    let url = url
        .filter(Url::has_host)
        .context("auth.jwt.jwks must be a file or an absolute URL")?;
    let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    ensure!(
        bare,
        "auth.jwt.jwks must not contain a user, a password or a fragment"
    );
    sabotage!(
        "keys-over-plain-http",
        ensure!(
            url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url),
            "auth.jwt.jwks must be a file or begin with https://; http:// is for 127.0.0.1, [::1] and localhost"
        ),
        ensure!(
            url.scheme() == "https" || url.scheme() == "http",
            "auth.jwt.jwks must be a file or begin with https://; http:// is for 127.0.0.1, [::1] and localhost"
        )
    );
    Ok(Arc::new(keyset::from_url(url)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::JwtConfig;

    fn complete_section() -> JwtConfig {
        let text = |text: &str| Some(text.to_owned());
        JwtConfig {
            issuer: text("https://issuer.example"),
            audience: text("remem"),
            jwks: text("keys.json"),
            ..JwtConfig::default()
        }
    }

    #[test]
    fn jwt_is_off_when_unset_and_on_when_complete() {
        assert!(token_verifier(&JwtConfig::default()).unwrap().is_none());
        let rules = token_verifier(&complete_section()).unwrap().unwrap().rules;
        assert_eq!(
            (rules.algorithms.as_slice(), rules.leeway_ms, rules.tenant),
            (&Algorithm::DEFAULT[..], 60_000, None)
        );
        let fixed = JwtConfig {
            tenant: Some("acme".to_owned()),
            leeway_seconds: 300,
            ..complete_section()
        };
        assert_eq!(
            token_verifier(&fixed).unwrap().unwrap().rules.tenant,
            TenantId::parse("acme")
        );
    }

    #[test]
    fn incomplete_or_invalid_jwt_settings_are_refused_by_name() {
        let named = |name: &str, change: fn(&mut JwtConfig)| {
            let mut config = complete_section();
            change(&mut config);
            let refused = format!(
                "{:#}",
                token_verifier(&config)
                    .err()
                    .unwrap_or_else(|| panic!("{name} is accepted"))
            );
            assert!(refused.contains(&format!("auth.jwt.{name}")), "{refused}");
            assert!(!refused.contains("c4nary"), "{refused}");
        };
        named("issuer", |c| c.issuer = None);
        named("issuer", |c| c.issuer = Some(String::new()));
        named("audience", |c| c.audience = None);
        named("jwks", |c| c.jwks = None);
        named("issuer", |c| {
            *c = JwtConfig {
                tenant: Some("acme".to_owned()),
                ..JwtConfig::default()
            }
        });
        named("algorithms", |c| c.algorithms = Vec::new());
        named("leeway_seconds", |c| c.leeway_seconds = 301);
        named("tenant", |c| c.tenant = Some("../c4nary".to_owned()));
        named("tenant", |c| {
            (c.tenant, c.tenant_claim) = (Some("acme".to_owned()), "org".to_owned())
        });
        named("tenant_claim", |c| c.tenant_claim = String::new());
        named("scope_claim", |c| c.scope_claim = "a\nb".to_owned());
        named("principal_claim", |c| c.principal_claim = "x".repeat(201));
        named("trust", |c| c.trust = "c4nary".to_owned());
        named("jwks", |c| {
            c.jwks = Some("http://issuer.example/keys".to_owned())
        });
        named("jwks", |c| {
            c.jwks = Some("http://127.0.0.1.example/keys".to_owned())
        });
        named("jwks", |c| {
            c.jwks = Some("https://ana:c4nary@issuer.example/keys".to_owned())
        });
        named("jwks", |c| c.jwks = Some("file:///c4nary".to_owned()));
    }

    /// With a shared secret, or without a signature, any holder of the public key could make
    /// tokens.
    #[test]
    fn symmetric_and_unknown_algorithms_are_refused() {
        for never in ["HS256", "HS384", "HS512", "none", "hs256", "rs256", "ES512"] {
            let config = JwtConfig {
                algorithms: vec!["RS256".to_owned(), never.to_owned()],
                ..complete_section()
            };
            assert!(token_verifier(&config).is_err(), "{never}");
        }
        let all = JwtConfig {
            algorithms: Algorithm::ALL.map(|a| a.as_str().to_owned()).to_vec(),
            ..complete_section()
        };
        assert_eq!(
            token_verifier(&all).unwrap().unwrap().rules.algorithms,
            Algorithm::ALL
        );
    }
}
