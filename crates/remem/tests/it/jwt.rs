//! Tokens and the real host: keys in a file and behind a URL, rotation, scopes, streams that end
//! with their token, and the answers to refused tokens. Which tokens are refused, one by one, is
//! tested with the engine.

use crate::common;
use crate::common::client::{BASE, Client};
use crate::common::{ServerProcess, files, place, remem_on, run, run_on};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_testkit::{deadline, wait_until};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

const ISSUER: &str = "https://issuer.example";

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key that the issuer signs tokens with.
enum SigningKey {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl SigningKey {
    fn ed25519() -> SigningKey {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        SigningKey::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn p256() -> SigningKey {
        let how = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
        SigningKey::P256(EcdsaKeyPair::from_pkcs8(how, pkcs8.as_ref(), &random).unwrap())
    }

    fn jwk(&self, kid: &str) -> Value {
        match self {
            SigningKey::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(pair.public_key())})
            }
            SigningKey::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": b64(x), "y": b64(y)})
            }
        }
    }

    /// A token of tenant `default` that is good for an hour, with these claims changed.
    fn token(&self, kid: &str, changes: Value) -> String {
        let alg = if matches!(self, SigningKey::Ed25519(_)) {
            "EdDSA"
        } else {
            "ES256"
        };
        let mut claims = json!({"iss": ISSUER, "aud": "remem", "sub": "ana", "tenant": "default", "exp": now() + 3_600,
            "scope": "openid memory:read memory:write"});
        for (name, change) in changes.as_object().unwrap() {
            claims[name] = change.clone();
        }
        let message = format!(
            "{}.{}",
            b64(json!({"alg": alg, "kid": kid}).to_string()),
            b64(claims.to_string())
        );
        let signature = match self {
            SigningKey::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            SigningKey::P256(pair) => pair
                .sign(&SystemRandom::new(), message.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec(),
        };
        format!("{message}.{}", b64(signature))
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn document(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn start(dir: &Path, jwks: &str, level: &str) -> ServerProcess {
    let environment = [
        ("REMEM_AUTH__JWT__ISSUER", ISSUER),
        ("REMEM_AUTH__JWT__AUDIENCE", "remem"),
        ("REMEM_AUTH__JWT__JWKS", jwks),
        ("REMEM_LOG__LEVEL", level),
    ];
    ServerProcess::start_with(dir, &[], &environment)
}

async fn status(client: &Client, token: &str) -> u16 {
    client
        .with_key(token)
        .get(&Client::memory("m", "stats"))
        .await
        .status
}

/// Asks until the token is answered so.
async fn becomes(client: &Client, token: &str, expected: u16) {
    wait_until(
        &format!("the token is answered with {expected}"),
        || async { status(client, token).await == expected },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_valid_token_authenticates_and_is_never_stored_or_logged() {
    let folder = tempfile::tempdir().unwrap();
    let signing_key = SigningKey::p256();
    let jwks = folder.path().join("keys.json");
    std::fs::write(&jwks, document(&[signing_key.jwk("one")])).unwrap();
    let server = start(&folder.path().join("data"), jwks.to_str().unwrap(), "trace");
    let client = server.client();
    let token = signing_key.token("one", json!({}));
    let ana = client.with_key(&token);
    let entry = ana.put("m", &json!({"content": "Ana prefers tea"})).await;
    let path = Client::memory("m", &format!("entries/{}", entry["id"].as_str().unwrap()));
    assert_eq!(
        ana.get(&path).await.is(200).json()["content"],
        "Ana prefers tea"
    );
    let proven = ana.get(&format!("{BASE}/whoami")).await.is(200).json();
    assert_eq!(proven["tenant"], "default");
    assert_eq!(proven["principal"], "ana");
    assert_eq!(proven["scopes"], json!(["memory:read", "memory:write"]));
    assert_eq!(proven.get("keyId"), None, "no key was used: {proven}");
    assert!(proven["expiresAt"].is_string(), "a token ends: {proven}");
    // A key and a token of one user are one user.
    let made = client
        .post(
            &format!("{BASE}/keys"),
            &json!({"scopes": ["memory:read"], "principal": "ana"}),
        )
        .await
        .is(201)
        .json();
    assert_eq!(made["principal"], "ana");
    assert_eq!(status(&client, made["key"].as_str().unwrap()).await, 200);
    // What the token does not say, it does not allow.
    let denied = ana.get(&format!("{BASE}/keys")).await.is(403);
    assert_eq!(
        denied.json()["details"],
        json!({"scopeRequired": "keys:manage"})
    );
    // MCP uses the same authentication.
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mcp = |key: &str| {
        let request = client
            .with_key(key)
            .request(reqwest::Method::POST, "/mcp")
            .json(&hello);
        common::client::finish(request.header("accept", "application/json, text/event-stream"))
    };
    assert!(
        mcp(&token)
            .await
            .unwrap()
            .is(200)
            .text
            .contains("memory_put")
    );
    mcp(&signing_key.token("two", json!({})))
        .await
        .unwrap()
        .is(401);
    // Whatever is wrong looks the same.
    let unknown = client.with_key("unknown-key").get(&path).await.is(401);
    let wrong = [
        json!({"exp": now() - 3_600}),
        json!({"aud": "x"}),
        json!({"tenant": "nobody"}),
        json!({"scope": "openid"}),
        json!({"sub": ""}),
    ];
    for changes in wrong {
        let refused = client
            .with_key(&signing_key.token("one", changes))
            .get(&path)
            .await
            .is(401);
        assert_eq!(
            (&refused.text, refused.header("www-authenticate")),
            (&unknown.text, "Bearer")
        );
    }
    client
        .with_key(&SigningKey::p256().token("one", json!({})))
        .get(&path)
        .await
        .is(401);
    let tenants = client.get(&format!("{BASE}/tenants")).await.is(200);
    assert!(
        !tenants.text.contains("nobody"),
        "no tenant comes into being by a token"
    );
    // The log says why a token was refused, and neither it nor any file holds a token.
    let log = server.output();
    for reason in [
        "expired",
        "audience",
        "tenant",
        "no_permission",
        "principal",
        "signature",
        "unknown_key",
    ] {
        assert!(
            log.contains(&format!("reason=\"{reason}\"")),
            "{reason} is not in the log"
        );
    }
    let parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    assert!(
        parts[1..].iter().all(|part| !log.contains(part.as_str())),
        "a token is in the log"
    );
    assert!(files::find_in(&place::stored(&folder.path().join("data")), &parts[1..]).is_empty());
    let metrics = client.get("/metrics").await.is(200).text;
    assert!(
        metrics.contains("remem_tokens_refused_total{reason=\"audience\"} 1"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_signing_key_rejects_its_tokens_and_ends_streams() {
    let folder = tempfile::tempdir().unwrap();
    let old = SigningKey::ed25519();
    let new = SigningKey::p256();
    let jwks = folder.path().join("keys.json");
    std::fs::write(&jwks, document(&[old.jwk("old")])).unwrap();
    let server = start(&folder.path().join("data"), jwks.to_str().unwrap(), "info");
    let client = server.client();
    let first = old.token("old", json!({}));
    let second = new.token("new", json!({}));
    assert_eq!(
        (
            status(&client, &first).await,
            status(&client, &second).await
        ),
        (200, 401)
    );
    let mut stream = client.with_key(&first).stream(0).await;
    client
        .with_key(&first)
        .put("m", &json!({"content": "x"}))
        .await;
    assert!(stream.next(deadline()).await.is_some());
    // Both for a while, as a rotation goes.
    std::fs::write(&jwks, document(&[old.jwk("old"), new.jwk("new")])).unwrap();
    becomes(&client, &second, 200).await;
    assert_eq!(status(&client, &first).await, 200);
    std::fs::write(&jwks, document(&[new.jwk("new")])).unwrap();
    becomes(&client, &first, 401).await;
    assert!(
        stream.next(deadline()).await.is_none(),
        "a stream goes with the key of its token"
    );
    assert_eq!(status(&client, &second).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_when_its_token_expires() {
    let folder = tempfile::tempdir().unwrap();
    let signing_key = SigningKey::ed25519();
    let jwks = folder.path().join("keys.json");
    std::fs::write(&jwks, document(&[signing_key.jwk("one")])).unwrap();
    let server = start(&folder.path().join("data"), jwks.to_str().unwrap(), "info");
    let client = server.client();
    let until = now() + 4;
    let short = client.with_key(&signing_key.token("one", json!({ "exp": until })));
    let mut ends = short.stream(0).await;
    let mut lasts = client.stream(0).await;
    short.put("m", &json!({"content": "x"})).await;
    assert!(ends.next(deadline()).await.is_some() && lasts.next(deadline()).await.is_some());
    assert!(ends.next(deadline()).await.is_none());
    assert!(now() >= until, "not before its time");
    client.put("m", &json!({"content": "y"})).await;
    assert!(
        lasts.next(deadline()).await.is_some(),
        "the stream of a key goes on"
    );
}

/// A server for a document, which tests change. `None` is answered with 503.
struct Issuer {
    url: String,
    document: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    fn start(document: Option<String>) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let document = Arc::new(Mutex::new(document));
        let asked = Arc::new(AtomicUsize::new(0));
        let shown = document.clone();
        let count = asked.clone();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n") && matches!(socket.read(&mut byte), Ok(1)) {
                    request.push(byte[0]);
                }
                count.fetch_add(1, Ordering::SeqCst);
                let (status, body) = shown
                    .lock()
                    .unwrap()
                    .clone()
                    .map_or(("503 No", String::new()), |body| ("200 OK", body));
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                // A client that closed the connection needs no answer.
                let _ = socket.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Issuer {
            url,
            document,
            asked,
        }
    }

    fn show(&self, document: Option<String>) {
        *self.document.lock().unwrap() = document;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_from_a_url_are_fetched_rotated_and_outlive_an_outage() {
    let folder = tempfile::tempdir().unwrap();
    let old = SigningKey::ed25519();
    let new = SigningKey::ed25519();
    let issuer = Issuer::start(None);
    let server = start(folder.path(), &issuer.url, "info");
    let client = server.client();
    let first = old.token("old", json!({}));
    let second = new.token("new", json!({}));
    assert_eq!(status(&client, &first).await, 503, "nobody can tell yet");
    client.get(&Client::memory("m", "stats")).await.is(200);
    issuer.show(Some(document(&[old.jwk("old")])));
    becomes(&client, &first, 200).await;
    // A token with an unknown key is a reason to look, strangers' tokens are not one again and
    // again.
    issuer.show(Some(document(&[new.jwk("new")])));
    assert_eq!(status(&client, &second).await, 200);
    assert_eq!(status(&client, &first).await, 401, "taken back");
    let asked = issuer.asked.load(Ordering::SeqCst);
    for n in 0..20 {
        assert_eq!(
            status(&client, &new.token(&format!("stranger-{n}"), json!({}))).await,
            401
        );
    }
    assert_eq!(issuer.asked.load(Ordering::SeqCst), asked);
    issuer.show(None);
    assert_eq!(
        status(&client, &second).await,
        200,
        "old keys serve while the issuer is away"
    );
}

#[test]
fn incomplete_jwt_settings_stop_the_start_and_doctor_checks_keys() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("remem.toml");
    let jwks = folder.path().join("keys.json");
    let serve = |section: &str| {
        std::fs::write(&file, format!("[auth.jwt]\n{section}")).unwrap();
        run(remem_on(&data)
            .arg("--config")
            .arg(&file)
            .args(["serve", "--listen", "127.0.0.1:0"]))
    };
    let whole = format!("issuer = \"{ISSUER}\"\naudience = \"remem\"\njwks = {jwks:?}\n");
    for (section, said) in [
        (
            format!("issuer = \"{ISSUER}\"\naudience = \"remem\"\n"),
            "auth.jwt.jwks is missing",
        ),
        (format!("jwks = {jwks:?}\n"), "auth.jwt.issuer is missing"),
        ("tenant = \"acme\"\n".to_owned(), "needs auth.jwt.issuer"),
        (
            format!("{whole}algorithms = [\"HS256\"]\n"),
            "auth.jwt.algorithms may name",
        ),
        (format!("{whole}secret = \"x\"\n"), "unknown key `secret`"),
        (
            whole.clone(),
            "cannot be used as a JWKS document: unreadable",
        ),
    ] {
        let refused = serve(&section).exits(1);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let doctor = || {
        let found = run(remem_on(&data)
            .arg("--config")
            .arg(&file)
            .args(["--json", "doctor"]));
        let row = found
            .json()
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["check"] == "tokens")
            .cloned()
            .unwrap();
        (
            row["ok"] == json!(true),
            row["detail"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(
        doctor(),
        (false, "auth.jwt.jwks cannot be used: unreadable".to_owned())
    );
    std::fs::write(
        &jwks,
        document(&[SigningKey::ed25519().jwk("a"), SigningKey::p256().jwk("b")]),
    )
    .unwrap();
    assert_eq!(doctor(), (true, "2 keys of the issuer".to_owned()));
    std::fs::write(&file, "").unwrap();
    assert_eq!(doctor(), (true, "off: auth.jwt is not set".to_owned()));
    // A key for a user, and what the list says about it.
    let made = run_on(&data, &["--json", "key", "create", "--principal", "ana"])
        .exits(0)
        .json();
    assert_eq!(made["principal"], "ana");
    assert!(
        run_on(&data, &["key", "list"])
            .exits(0)
            .stdout
            .contains("ana")
    );
    let refused = run_on(&data, &["key", "create", "--principal", "ana c4nary"]);
    assert!(
        refused.code != 0
            && refused
                .stderr
                .contains("--principal is not a valid name; you gave 'ana c4nary'"),
        "{}",
        refused.stderr
    );
}
