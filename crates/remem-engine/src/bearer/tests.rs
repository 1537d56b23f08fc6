//! Tests of tokens: each invalid one is refused for its own reason, which is logged and not
//! returned to the caller.

use super::*;
use crate::keys::KeyRequest;
use crate::ports::{CountedIds, FixedClock, TestKeyset};
use crate::{Engine, EngineParts, HostKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use remem_core::{Permission, Seq, ShapePolicy, Trust};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
};
use serde_json::{Value, json};

const NOON: Timestamp = Timestamp(1_700_000_000_000);
const ISSUER: &str = "https://issuer.example";
/// The payload that the stored RSA signatures are made over, byte for byte.
const RSA_CLAIMS: &str = r#"{"iss":"https://issuer.example","aud":"remem","sub":"ana","tenant":"acme","scope":"memory:read","exp":1700000600}"#;

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa() -> Value {
    serde_json::from_str(include_str!("../../tests/data/rsa.json")).unwrap()
}

fn rsa_token(algorithm: &str) -> String {
    let header = format!(r#"{{"alg":"{algorithm}","kid":"rsa","typ":"JWT"}}"#);
    format!(
        "{}.{}.{}",
        b64(header),
        b64(RSA_CLAIMS),
        rsa()["signatures"][algorithm].as_str().unwrap()
    )
}

fn ed25519(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn ed25519_jwk(kid: &str, seed: u8) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": b64(ed25519(seed).public_key())})
}

fn ecdsa(how: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(how, pkcs8.as_ref(), &random).unwrap()
}

fn ecdsa_jwk(kid: &str, curve: &str, pair: &EcdsaKeyPair) -> Value {
    let point = &pair.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "kid": kid, "x": b64(x), "y": b64(y), "key_ops": ["verify"]})
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "ed", "typ": "JWT"})
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": ["other", "remem"], "sub": "ana", "tenant": "acme", "exp": NOON.0 / 1000 + 600,
        "scope": "openid memory:read memory:write profile"})
}

/// The value with these fields changed; a null removes a field.
fn with(mut value: Value, changes: Value) -> Value {
    for (name, change) in changes.as_object().unwrap() {
        match change {
            Value::Null => value.as_object_mut().unwrap().remove(name),
            other => value
                .as_object_mut()
                .unwrap()
                .insert(name.clone(), other.clone()),
        };
    }
    value
}

fn signed_by(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", b64(signature))
}

fn signed(header: &Value, claims: &Value) -> String {
    signed_by(header, claims, |message| {
        ed25519(1).sign(message).as_ref().to_vec()
    })
}

fn token(changes: Value) -> String {
    signed(&header(), &with(claims(), changes))
}

fn document(keys: Value) -> PublicKeys {
    PublicKeys::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

/// The issuer's keys in most tests.
fn keys() -> PublicKeys {
    let rsa = rsa();
    document(json!([
        ed25519_jwk("ed", 1),
        ed25519_jwk("ed2", 2),
        {"kty": "RSA", "kid": "rsa", "n": rsa["n"], "e": rsa["e"]},
        {"kty": "RSA", "kid": "rsa-rs512", "alg": "RS512", "n": rsa["n"], "e": rsa["e"]},
    ]))
}

fn rules() -> TokenRules {
    TokenRules {
        issuer: ISSUER.to_owned(),
        audience: "remem".to_owned(),
        algorithms: Algorithm::DEFAULT.to_vec(),
        leeway_ms: 60_000,
        tenant: None,
        tenant_claim: "tenant".to_owned(),
        scope_claim: "scope".to_owned(),
        principal_claim: "sub".to_owned(),
        trust: Trust::Model,
    }
}

struct BearerTest {
    engine: Arc<Engine>,
    clock: Arc<FixedClock>,
    keyset: Arc<TestKeyset>,
}

impl BearerTest {
    async fn new(rules: TokenRules) -> BearerTest {
        let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
        let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
        let clock = Arc::new(FixedClock::at(NOON));
        let keyset = Arc::new(TestKeyset::default());
        let parts = EngineParts::new(
            store,
            directory,
            clock.clone(),
            Arc::new(CountedIds::default()),
            HostKey::new([3; 32]),
        );
        let bearer = Some(BearerAuth {
            rules,
            keyset: keyset.clone(),
        });
        let engine = Arc::new(Engine::new(EngineParts { bearer, ..parts }));
        engine
            .ensure_tenant(TenantId::parse("acme").unwrap(), ShapePolicy::Redact)
            .await
            .unwrap();
        keyset.set(keys());
        keyset.refresh();
        BearerTest {
            engine,
            clock,
            keyset,
        }
    }

    async fn caller(&self, token: &str) -> Caller {
        self.engine.authenticate(token).await.unwrap()
    }
}

/// The reason for which a token is refused.
fn refusal_of(token: &str) -> Option<TokenRefusal> {
    ParsedToken::parse(token)?
        .verify(&rules(), &keys(), NOON)
        .err()
}

/// The fault of a token, the expected refusal, and the token.
type BadToken = (&'static str, TokenRefusal, String);

fn badly_signed() -> Vec<BadToken> {
    let head = |changes| signed(&with(header(), changes), &claims());
    let unsigned =
        |alg: &str| signed_by(&json!({"alg": alg, "kid": "ed"}), &claims(), |_| Vec::new());
    // The public key, which everyone can get, used as a shared secret.
    let public = |kid: &str, secret: &[u8]| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        signed_by(&json!({"alg": "HS256", "kid": kid}), &claims(), |message| {
            ring::hmac::sign(&key, message).as_ref().to_vec()
        })
    };
    let good = token(json!({}));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head_part, _) = message.split_once('.').unwrap();
    let other = b64(with(claims(), json!({"tenant": "other"})).to_string());
    let with_rsa_header = format!(
        "{}.{signature}",
        rsa_token("RS256").rsplit_once('.').unwrap().0
    );
    vec![
        ("none", TokenRefusal::Algorithm, unsigned("none")),
        ("NONE", TokenRefusal::Algorithm, unsigned("NONE")),
        ("no algorithm named", TokenRefusal::Algorithm, unsigned("")),
        (
            "HS256 with the public key",
            TokenRefusal::Algorithm,
            public("ed", ed25519(1).public_key().as_ref()),
        ),
        (
            "HS256 with the modulus",
            TokenRefusal::Algorithm,
            public("rsa", rsa()["n"].as_str().unwrap().as_bytes()),
        ),
        (
            "an algorithm that is not on the list",
            TokenRefusal::Algorithm,
            rsa_token("PS256"),
        ),
        (
            "another spelling",
            TokenRefusal::Algorithm,
            head(json!({"alg": "eddsa"})),
        ),
        (
            "RS256 for an Ed25519 key",
            TokenRefusal::KeyMismatch,
            head(json!({"alg": "RS256"})),
        ),
        (
            "EdDSA for an RSA key",
            TokenRefusal::KeyMismatch,
            head(json!({"kid": "rsa"})),
        ),
        (
            "ES256 for an Ed25519 key",
            TokenRefusal::KeyMismatch,
            head(json!({"alg": "ES256"})),
        ),
        (
            "RS256 for a key of RS512",
            TokenRefusal::KeyMismatch,
            head(json!({"alg": "RS256", "kid": "rsa-rs512"})),
        ),
        (
            "unknown kid",
            TokenRefusal::UnknownKey,
            head(json!({"kid": "ed3"})),
        ),
        (
            "no kid among several keys",
            TokenRefusal::UnknownKey,
            head(json!({"kid": null})),
        ),
        (
            "another key's signature",
            TokenRefusal::Signature,
            head(json!({"kid": "ed2"})),
        ),
        (
            "no signature",
            TokenRefusal::Signature,
            format!("{message}."),
        ),
        (
            "half a signature",
            TokenRefusal::Signature,
            format!("{message}.{}", &signature[..43]),
        ),
        (
            "a signature that is no base64url",
            TokenRefusal::Signature,
            format!("{message}.!{}", &signature[1..]),
        ),
        (
            "a padded signature",
            TokenRefusal::Signature,
            format!("{good}=="),
        ),
        (
            "an Ed25519 signature of an RSA token",
            TokenRefusal::Signature,
            with_rsa_header,
        ),
        (
            "another payload",
            TokenRefusal::Signature,
            format!("{head_part}.{other}.{signature}"),
        ),
        (
            "another header",
            TokenRefusal::Signature,
            format!(
                "{}.{}",
                b64(r#"{"alg":"EdDSA","kid":"ed"}"#),
                &good[head_part.len() + 1..]
            ),
        ),
        (
            "a key of its own in the header",
            TokenRefusal::UnknownKey,
            head(json!({"kid": "own", "jwk": ed25519_jwk("own", 1)})),
        ),
        (
            "a token for logging out",
            TokenRefusal::Type,
            head(json!({"typ": "logout+jwt"})),
        ),
        (
            "an extension that must be understood",
            TokenRefusal::Critical,
            head(json!({"crit": ["b64"], "b64": false})),
        ),
        (
            "an extension that is null",
            TokenRefusal::Critical,
            signed(
                &json!({"alg": "EdDSA", "kid": "ed", "crit": null}),
                &claims(),
            ),
        ),
        (
            "huge",
            TokenRefusal::TooLarge,
            token(json!({"pad": "x".repeat(16 * 1024)})),
        ),
        ("no JSON", TokenRefusal::Malformed, {
            let message = format!("{head_part}.{}", b64("sub=ana"));
            format!("{message}.{}", b64(ed25519(1).sign(message.as_bytes())))
        }),
        (
            "a list",
            TokenRefusal::Malformed,
            signed(&header(), &json!([claims()])),
        ),
    ]
}

fn badly_claimed() -> Vec<BadToken> {
    let now = NOON.0 / 1000;
    let row = |what, why, changes| (what, why, token(changes));
    vec![
        row("expired", TokenRefusal::Expired, json!({"exp": now - 60})),
        row("expired long ago", TokenRefusal::Expired, json!({"exp": 0})),
        row("no exp", TokenRefusal::NoExpiry, json!({"exp": null})),
        row(
            "exp as a text",
            TokenRefusal::Malformed,
            json!({"exp": "1900000000"}),
        ),
        row(
            "exp beyond all time",
            TokenRefusal::Malformed,
            json!({"exp": 1e300}),
        ),
        row(
            "exp before all time",
            TokenRefusal::Malformed,
            json!({"exp": -1}),
        ),
        row(
            "exp beyond the milliseconds there are",
            TokenRefusal::Malformed,
            json!({"exp": i64::MAX}),
        ),
        row("not yet", TokenRefusal::NotYet, json!({"nbf": now + 61})),
        row(
            "nbf as a text",
            TokenRefusal::Malformed,
            json!({"nbf": "soon"}),
        ),
        row(
            "another issuer",
            TokenRefusal::Issuer,
            json!({"iss": "https://issuer.example/"}),
        ),
        row("no issuer", TokenRefusal::Issuer, json!({"iss": null})),
        row(
            "several issuers",
            TokenRefusal::Issuer,
            json!({"iss": [ISSUER]}),
        ),
        row(
            "another audience",
            TokenRefusal::Audience,
            json!({"aud": "remem2"}),
        ),
        row(
            "other audiences",
            TokenRefusal::Audience,
            json!({"aud": ["a", "b"]}),
        ),
        row("no audience", TokenRefusal::Audience, json!({"aud": null})),
        row(
            "audience of another kind",
            TokenRefusal::Audience,
            json!({"aud": {"remem": true}}),
        ),
        row("no tenant", TokenRefusal::Tenant, json!({"tenant": null})),
        row(
            "malformed tenant",
            TokenRefusal::Tenant,
            json!({"tenant": "../acme"}),
        ),
        row(
            "tenant as a list",
            TokenRefusal::Tenant,
            json!({"tenant": ["acme"]}),
        ),
        row("no subject", TokenRefusal::Principal, json!({"sub": null})),
        row("empty subject", TokenRefusal::Principal, json!({"sub": ""})),
        row(
            "blank subject",
            TokenRefusal::Principal,
            json!({"sub": " \t"}),
        ),
        row(
            "subject as a number",
            TokenRefusal::Principal,
            json!({"sub": 7}),
        ),
        row(
            "no scope",
            TokenRefusal::NoPermission,
            json!({"scope": null}),
        ),
        row(
            "no scope of ours",
            TokenRefusal::NoPermission,
            json!({"scope": "openid profile memory:reads Memory:Read"}),
        ),
        row(
            "scope of another kind",
            TokenRefusal::NoPermission,
            json!({"scope": {"memory:read": true}}),
        ),
    ]
}

#[tokio::test]
async fn invalid_tokens_have_documented_reasons_and_return_the_same_error() {
    let world = BearerTest::new(rules()).await;
    let rows = [badly_signed(), badly_claimed()].concat();
    assert!(rows.len() >= 50, "{}", rows.len());
    let documented = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/identity.md"
    ))
    .unwrap();
    for (what, expected, token) in rows {
        assert_eq!(refusal_of(&token), Some(expected), "{what}");
        assert_eq!(
            world.engine.authenticate(&token).await.unwrap_err(),
            AuthError::Unknown,
            "{what}"
        );
        assert!(
            documented.contains(&format!("| `{}` |", expected.as_str())),
            "docs/identity.md lacks {}",
            expected.as_str()
        );
    }
    // A valid token for a tenant that does not exist, and is not created by it.
    let stranger = token(json!({"tenant": "nobody"}));
    assert_eq!(refusal_of(&stranger), None);
    assert_eq!(
        world.engine.authenticate(&stranger).await.unwrap_err(),
        AuthError::Unknown
    );
    let nobody = TenantId::parse("nobody").unwrap();
    assert!(
        world
            .engine
            .parts
            .directory
            .tenant(&nobody)
            .await
            .unwrap()
            .is_none()
    );
    for garbage in [
        "",
        ".",
        "..",
        "a.b.c",
        "e30.e30.e30",
        "....",
        "eyJhbGciOiJFZERTQSJ9",
        "\u{0}.\u{0}.\u{0}",
    ] {
        assert!(ParsedToken::parse(garbage).is_none(), "{garbage}");
        assert_eq!(
            world.engine.authenticate(garbage).await.unwrap_err(),
            AuthError::Unknown,
            "{garbage}"
        );
    }
}

#[tokio::test]
async fn a_valid_token_authenticates_with_its_tenant_principal_and_scopes() {
    let world = BearerTest::new(rules()).await;
    for good in [token(json!({})), rsa_token("RS256")] {
        let caller = world.caller(&good).await;
        assert_eq!(
            (caller.tenant().as_str(), caller.principal().as_str()),
            ("acme", "ana")
        );
        assert!(
            caller.has_permission(Permission::MemoryRead)
                && !caller.has_permission(Permission::HostAdmin)
        );
        assert_eq!(
            caller.has_permission(Permission::MemoryWrite),
            good != rsa_token("RS256")
        );
    }
    let now = NOON.0 / 1000;
    for (what, changes) in [
        (
            "a list of scopes",
            json!({"scope": ["memory:read", "memory:write openid", 7]}),
        ),
        ("one audience", json!({"aud": "remem"})),
        (
            "a moment too late, by clocks that differ",
            json!({"exp": now - 59}),
        ),
        (
            "a moment too early, by clocks that differ",
            json!({"nbf": now + 60}),
        ),
        (
            "fractions of seconds",
            json!({"exp": now as f64 + 0.9, "nbf": now as f64 - 0.9}),
        ),
        (
            "claims that mean something elsewhere",
            json!({"azp": "x", "iat": now, "nested": {"scope": "host:admin"}}),
        ),
    ] {
        let caller = world.caller(&token(changes)).await;
        assert_eq!(
            caller.permissions,
            [Permission::MemoryRead, Permission::MemoryWrite],
            "{what}"
        );
    }
    for kind in ["jwt", "at+jwt", "application/AT+JWT"] {
        world
            .caller(&signed(&with(header(), json!({"typ": kind})), &claims()))
            .await;
    }
}

/// Every algorithm verifies only what was signed with it.
#[tokio::test]
async fn each_algorithm_verifies_only_its_own_signatures() {
    let p256 = ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let p384 = ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING);
    let sign = |name: &str, kid: &str, pair: &EcdsaKeyPair| {
        let head = json!({"alg": name, "kid": kid});
        signed_by(&head, &claims(), |message| {
            pair.sign(&SystemRandom::new(), message)
                .unwrap()
                .as_ref()
                .to_vec()
        })
    };
    let rsa_key = json!({"kty": "RSA", "kid": "rsa", "n": rsa()["n"], "e": rsa()["e"]});
    let all = json!([
        rsa_key,
        ecdsa_jwk("p256", "P-256", &p256),
        ecdsa_jwk("p384", "P-384", &p384),
        ed25519_jwk("ed", 1)
    ]);
    for algorithm in Algorithm::ALL {
        let world = BearerTest::new(TokenRules {
            algorithms: vec![algorithm],
            ..rules()
        })
        .await;
        world.keyset.set(document(all.clone()));
        world.keyset.refresh();
        for other in Algorithm::ALL {
            let token = match other {
                Algorithm::Es256 => sign("ES256", "p256", &p256),
                Algorithm::Es384 => sign("ES384", "p384", &p384),
                Algorithm::EdDsa => token(json!({})),
                _ => rsa_token(other.as_str()),
            };
            let accepted = world.engine.authenticate(&token).await.is_ok();
            assert_eq!(accepted, algorithm == other, "{algorithm:?} {other:?}");
        }
    }
    for never in [
        "HS256", "HS384", "HS512", "none", "None", "", "ES512", "RSA1_5",
    ] {
        assert_eq!(Algorithm::parse(never), None, "{never}");
    }
}

#[test]
fn a_key_set_ignores_keys_that_cannot_verify_signatures() {
    let ed = |changes| with(ed25519_jwk("ed", 1), changes);
    let left_out = json!([
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        ed(json!({"use": "enc"})),
        ed(json!({"key_ops": ["sign"]})),
        ed(json!({"d": b64([1; 32])})),
        ed(json!({"alg": "RS256"})),
        ed(json!({"alg": "HS256"})),
        ed(json!({"crv": "X25519"})),
        ed(json!({"x": b64([1; 31])})),
        ed(json!({"x": null})),
        {"kty": "RSA", "n": rsa()["short"], "e": "AQAB"},
        {"kty": "RSA", "n": rsa()["n"]},
        {"kty": "EC", "crv": "secp256k1", "x": b64([1; 32]), "y": b64([1; 32])},
        {"kty": "EC", "crv": "P-256", "x": b64([1; 32])},
        "a text",
        {},
    ]);
    for key in left_out.as_array().unwrap() {
        let read = document(json!([key, ed(json!({}))]));
        assert_eq!((read.len(), read.unusable()), (1, 1), "{key}");
    }
    assert!(
        document(json!([])).is_empty(),
        "a document without keys is one: nobody comes in"
    );
    for bad in ["", "[]", "{}", r#"{"keys": {}}"#, "<html>"] {
        assert_eq!(
            PublicKeys::parse(bad.as_bytes()).err(),
            Some(KeysetError::Malformed),
            "{bad}"
        );
    }
    let many = json!({ "keys": vec![ed(json!({})); 101] }).to_string();
    assert_eq!(
        PublicKeys::parse(many.as_bytes()).err(),
        Some(KeysetError::TooLarge)
    );
}

#[tokio::test]
async fn kid_is_optional_with_a_single_key_and_ambiguous_kids_are_refused() {
    let world = BearerTest::new(rules()).await;
    let nameless = signed(&json!({"alg": "EdDSA"}), &claims());
    let show = async |keys| {
        world.keyset.set(document(keys));
        world.keyset.refresh();
        (
            world.engine.authenticate(&nameless).await.is_ok(),
            world.engine.authenticate(&token(json!({}))).await.is_ok(),
        )
    };
    assert_eq!(show(json!([ed25519_jwk("ed", 1)])).await, (true, true));
    assert_eq!(
        show(json!([ed25519_jwk("ed", 1), ed25519_jwk("ed2", 2)])).await,
        (false, true)
    );
    assert_eq!(
        show(json!([ed25519_jwk("ed", 1), ed25519_jwk("ed", 2)])).await,
        (false, false),
        "which one is meant?"
    );
    let rsa_of_that_name = json!({"kty": "RSA", "kid": "ed", "n": rsa()["n"], "e": rsa()["e"]});
    assert_eq!(
        show(json!([ed25519_jwk("ed", 1), rsa_of_that_name])).await,
        (false, true),
        "of two types, one can be meant"
    );
}

/// No subject gets a reserved name, and one that is not a valid name becomes a digest.
#[tokio::test]
async fn subjects_that_are_reserved_or_invalid_names_become_digests() {
    let world = BearerTest::new(rules()).await;
    let name = async |subject: &str| {
        world
            .caller(&token(json!({"sub": subject})))
            .await
            .principal()
            .as_str()
            .to_owned()
    };
    for plain in [
        "ana",
        "7",
        "auth0:ana.b",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ] {
        assert_eq!(name(plain).await, plain);
    }
    let mut digests = Vec::new();
    let long = "x".repeat(129);
    for odd in [
        "ana@example.org",
        "auth0|ana",
        "Ána",
        "local",
        "remembrancer",
        "key_000001",
        "jwt-00000000000000000000000000000000",
        &long,
    ] {
        let digest = name(odd).await;
        assert!(
            digest.len() == 36
                && digest.starts_with("jwt-")
                && digest[4..].bytes().all(|b| b.is_ascii_hexdigit()),
            "{digest}"
        );
        assert_ne!(digest, odd);
        assert_eq!(name(odd).await, digest, "the same one every time");
        digests.push(digest);
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 8);
    let one = world.engine.principal_of_subject("a", "b@c");
    assert_ne!(
        one,
        world.engine.principal_of_subject("ab", "@c"),
        "where the issuer ends is part of it"
    );
}

#[tokio::test]
async fn claim_names_tenant_and_trust_come_from_the_token_rules() {
    let named = TokenRules {
        tenant_claim: "https://example.org/org".to_owned(),
        scope_claim: "scp".to_owned(),
        principal_claim: "client_id".to_owned(),
        ..rules()
    };
    let changes = json!({"https://example.org/org": "acme", "scp": ["memory:admin"], "client_id": "batch", "tenant": "x", "scope": "host:admin"});
    let caller = BearerTest::new(named)
        .await
        .caller(&token(changes.clone()))
        .await;
    assert_eq!(
        (caller.principal().as_str(), caller.permissions.as_slice()),
        ("batch", &[Permission::MemoryAdmin][..])
    );
    assert_eq!(caller.trust_max(), Trust::Model);
    let fixed = TokenRules {
        tenant: TenantId::parse("acme"),
        trust: Trust::Tool,
        ..rules()
    };
    let world = BearerTest::new(fixed).await;
    let most = world.caller(&token(json!({}))).await.trust_max();
    assert_eq!(most, Trust::Tool, "what the operator says of the issuer");
    for tenant in [json!(null), json!("elsewhere"), json!(7)] {
        assert_eq!(
            world
                .caller(&token(json!({ "tenant": tenant })))
                .await
                .tenant()
                .as_str(),
            "acme"
        );
    }
}

#[tokio::test]
async fn an_unknown_key_triggers_one_refresh_and_removed_keys_are_revoked() {
    let world = BearerTest::new(rules()).await;
    let old = token(json!({}));
    let new = signed_by(&with(header(), json!({"kid": "new"})), &claims(), |m| {
        ed25519(9).sign(m).as_ref().to_vec()
    });
    let caller = world.caller(&old).await;
    assert_eq!(
        world.engine.authenticate(&new).await.unwrap_err(),
        AuthError::Unknown
    );
    assert_eq!(world.keyset.refresh_count(), 1);
    world.keyset.set(document(json!([ed25519_jwk("new", 9)])));
    world.caller(&old).await;
    assert_eq!(
        world.keyset.refresh_count(),
        1,
        "a known key is no reason to look"
    );
    let fresh = world.caller(&new).await;
    assert_eq!(world.keyset.refresh_count(), 2);
    assert_eq!(
        world.engine.authenticate(&old).await.unwrap_err(),
        AuthError::Unknown,
        "the issuer took the key back"
    );
    assert_eq!(
        world.engine.check_still_valid(&caller).await,
        Err(AuthError::Revoked),
        "and streams that came by it end"
    );
    assert_eq!(world.engine.check_still_valid(&fresh).await, Ok(()));
    // Another key with the old id is not the old key.
    world.keyset.set(document(json!([ed25519_jwk("ed", 8)])));
    world.keyset.refresh();
    assert_eq!(
        world.engine.check_still_valid(&caller).await,
        Err(AuthError::Revoked)
    );
}

#[tokio::test]
async fn tokens_are_unavailable_without_a_key_set_and_api_keys_still_work() {
    let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
    let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
    let clock = Arc::new(FixedClock::at(NOON));
    let parts = || {
        EngineParts::new(
            store.clone(),
            directory.clone(),
            clock.clone(),
            Arc::new(CountedIds::default()),
            HostKey::new([3; 32]),
        )
    };
    let bearer = Some(BearerAuth {
        rules: rules(),
        keyset: Arc::new(TestKeyset::default()),
    });
    let engine = Engine::new(EngineParts { bearer, ..parts() });
    let tenant = TenantId::parse("acme").unwrap();
    let request = KeyRequest {
        tenant,
        label: String::new(),
        permissions: vec![Permission::MemoryRead],
        expires_at: None,
        principal: None,
        trust: None,
    };
    let dotted = "a.chosen.key-with-two-dots";
    engine.add_key(dotted, request).await.unwrap();
    assert!(
        engine.authenticate(dotted).await.is_ok(),
        "dots alone make no token"
    );
    assert_eq!(
        engine.authenticate(&token(json!({}))).await.unwrap_err(),
        AuthError::Unavailable
    );
    let none = signed_by(&json!({"alg": "none"}), &claims(), |_| Vec::new());
    assert_eq!(
        engine.authenticate(&none).await.unwrap_err(),
        AuthError::Unknown,
        "for this no key is needed"
    );
    assert!(matches!(
        engine.count_token_keys().await,
        Some(Err(KeysetError::Unreachable))
    ));
    let plain = Engine::new(parts());
    assert!(plain.count_token_keys().await.is_none());
    assert_eq!(
        plain.authenticate(&token(json!({}))).await.unwrap_err(),
        AuthError::Unknown,
        "a host that takes none"
    );
}

/// The leeway applies when a token is presented; a stream ends when the token expires.
#[tokio::test]
async fn a_stream_ends_when_its_token_expires() {
    let world = BearerTest::new(rules()).await;
    let short = token(json!({"exp": NOON.0 / 1000 + 10}));
    let caller = world.caller(&short).await;
    let mut feed = world.engine.feed(&caller, Seq(0)).await.unwrap();
    let draft = remem_core::Draft {
        content: "x".into(),
        ..Default::default()
    };
    world
        .engine
        .put(&caller, "m", vec![draft], None)
        .await
        .unwrap();
    assert_eq!(
        feed.next().await.unwrap().map(|events| events.len()),
        Some(1)
    );
    world.clock.set(NOON.plus_ms(9_999));
    assert_eq!(world.engine.check_still_valid(&caller).await, Ok(()));
    world.clock.set(NOON.plus_ms(10_000));
    assert_eq!(
        world.engine.check_still_valid(&caller).await,
        Err(AuthError::Expired)
    );
    assert!(feed.next().await.unwrap().is_none());
    world.caller(&short).await;
    world.clock.set(NOON.plus_ms(70_000));
    assert_eq!(
        world.engine.authenticate(&short).await.unwrap_err(),
        AuthError::Unknown
    );
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

    /// Changing one byte anywhere makes a token invalid.
    #[test]
    fn a_token_that_was_tampered_with_is_refused(at in 0usize..4096, byte in proptest::sample::select(b"ABCXYZabcxyz0189-_.".to_vec())) {
        let good = token(json!({}));
        let at = at % good.len();
        let mut bytes = good.clone().into_bytes();
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        let text = String::from_utf8(bytes).unwrap();
        let accepted = ParsedToken::parse(&text).is_some_and(|token| token.verify(&rules(), &keys(), NOON).is_ok());
        prop_assert!(!accepted);
    }

    /// Arbitrary input is refused without a panic.
    #[test]
    fn arbitrary_bearer_input_is_refused_without_panic(text in ".{0,200}", header in ".{0,60}", payload in proptest::collection::vec(any::<u8>(), 0..80)) {
        let odd = format!("{}.{}.{}", b64(&header), b64(&payload), b64(&text));
        let signed = signed_by(&json!({"alg": "EdDSA", "kid": "ed"}), &json!(text), |m| ed25519(1).sign(m).as_ref().to_vec());
        for text in [text, odd, signed] {
            if let Some(token) = ParsedToken::parse(&text) {
                prop_assert!(token.verify(&rules(), &keys(), NOON).is_err());
            }
        }
    }
}
