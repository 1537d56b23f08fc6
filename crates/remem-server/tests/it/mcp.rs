//! What `/mcp` refuses and what it declares: JSON-RPC errors with the codes and data that MCP
//! defines, and nothing in them that a caller sent.

use axum::body::Body;
use axum::http::Request;
use remem_core::recall::confidence::RELEVANCE_THRESHOLD_PPM;
use remem_testkit::TestServer;
use remem_testkit::server::TestResponse;
use serde_json::{Value, json};

/// The text in every place where a caller chooses one.
const CANARY: &str = "CANARYofTheCaller";
const NEWEST: &str = "2026-07-28";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A request to `/mcp` as a client of the newest protocol sends it.
fn post(headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut all = vec![
        ("authorization", "Bearer key-of-a"),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("host", "localhost"),
    ];
    for &(name, value) in headers {
        all.retain(|(known, _)| *known != name);
        all.push((name, value));
    }
    let request = all
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .fold(Request::post("/mcp"), |request, (name, value)| {
            request.header(*name, *value)
        });
    request.body(body.into()).unwrap()
}

fn meta(version: &str) -> Value {
    json!({VERSION: version, CAPABILITIES: {}})
}

fn message(method: &str, mut params: Value, version: &str) -> String {
    params["_meta"] = meta(version);
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

/// Asks in the newest protocol.
async fn ask(host: &TestServer, method: &str, params: Value) -> TestResponse {
    let mut fields = ["name", "uri", "taskId"].into_iter();
    let name = fields.find_map(|field| params[field].as_str());
    let headers = [
        ("mcp-protocol-version", NEWEST),
        ("mcp-method", method),
        ("mcp-name", name.unwrap_or_default()),
    ];
    let body = message(method, params.clone(), NEWEST);
    host.send(post(&headers, body)).await
}

/// Requires a JSON-RPC error with that status and code; gives it.
fn refused(what: &str, answer: &TestResponse, status: u16, code: i64) -> Value {
    let body = answer.json();
    assert_eq!(
        (answer.status.as_u16(), &body["jsonrpc"]),
        (status, &json!("2.0")),
        "{what}: {body}"
    );
    assert_eq!(body["error"]["code"], json!(code), "{what}: {body}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty(), "{what}: {body}");
    assert!(!body.to_string().contains(CANARY), "{what}: {body}");
    body
}

#[tokio::test]
async fn refused_requests_get_json_rpc_errors() {
    let host = TestServer::new().await;
    let newest = ("mcp-protocol-version", NEWEST);
    let discover = ("mcp-method", "server/discover");

    let unknown = ask(&host, CANARY, json!({})).await;
    let body = refused("an unknown method", &unknown, 404, -32601);
    assert_eq!(body["id"], json!(7));

    let bare = json!({"jsonrpc": "2.0", "id": 7, "method": "server/discover",
        "params": {CANARY: CANARY, "_meta": {VERSION: NEWEST}}});
    let bare = host.send(post(&[newest, discover], bare.to_string())).await;
    assert_eq!(refused("no _meta", &bare, 400, -32602)["id"], json!(7));

    let other = message("server/discover", json!({}), CANARY);
    let other = host.send(post(&[newest, discover], other)).await;
    assert_eq!(refused("two versions", &other, 400, -32020)["id"], json!(7));

    let list = || message("tools/list", json!({}), NEWEST);
    let other = host.send(post(&[newest, ("mcp-method", CANARY)], list()));
    let body = refused("two methods", &other.await, 400, -32020);
    assert_eq!(body["id"], json!(7));

    let reply = json!({"jsonrpc": "2.0", "id": CANARY, "result": {CANARY: CANARY}});
    let reply = host.send(post(&[newest], reply.to_string())).await;
    assert!(refused("an answer", &reply, 400, -32600)["id"].is_null());
}

#[tokio::test]
async fn an_unsupported_protocol_version_gets_the_supported_ones() {
    let host = TestServer::new().await;
    for (asked, shown) in [
        ("2099-01-01", "2099-01-01"),
        ("v999.0.0", "v999.0.0"),
        (CANARY, "unknown"),
        ("73905182640017", "unknown"),
        ("7390-5182-6400", "unknown"),
    ] {
        let headers = [
            ("mcp-protocol-version", asked),
            ("mcp-method", "server/discover"),
        ];
        let modern = message("server/discover", json!({}), asked);
        let legacy = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}).to_string();
        for body in [modern, legacy] {
            let answer = host.send(post(&headers, body)).await;
            let body = refused(asked, &answer, 400, -32022);
            let data = &body["error"]["data"];
            assert_eq!(
                (&body["id"], &data["requested"]),
                (&json!(7), &json!(shown))
            );
            let supported = data["supported"].as_array().unwrap();
            assert!(supported.contains(&json!(NEWEST)), "{data}");
            assert!(supported.contains(&json!("2025-11-25")), "{data}");
        }
    }
}

/// What is no message at all has no id, and the code of this host for it beside MCP's.
#[tokio::test]
async fn an_invalid_message_is_refused_with_a_specific_error() {
    let host = TestServer::new().await;
    let list = || message("tools/list", json!({}), NEWEST);
    let no_json = format!("{{\"jsonrpc\": \"{CANARY}");
    let no_message = json!({"method": 7, CANARY: CANARY}).to_string();
    let text = ("content-type", "text/plain");
    for (what, headers, body, status, code, error) in [
        ("no JSON", &[][..], no_json, 400, -32700, "validation_error"),
        (
            "no message",
            &[][..],
            no_message,
            400,
            -32600,
            "validation_error",
        ),
        (
            "another type",
            &[text][..],
            list(),
            415,
            -32600,
            "unsupported_media_type",
        ),
        (
            "no answer is good",
            &[("accept", "text/html")][..],
            list(),
            406,
            -32600,
            "not_acceptable",
        ),
    ] {
        let answer = host.send(post(headers, body)).await;
        let data = &refused(what, &answer, status, code)["error"]["data"];
        assert_eq!(data["error"], json!(error), "{what}");
    }
    for method in ["GET", "DELETE", "PUT"] {
        let mut request = post(&[], Body::empty());
        *request.method_mut() = method.parse().unwrap();
        let answer = host.send(request).await;
        let data = &refused(method, &answer, 405, -32600)["error"]["data"];
        assert_eq!(data["error"], json!("method_not_allowed"), "{method}");
        assert_eq!(answer.header("allow"), "POST", "{method}");
    }
}

#[tokio::test]
async fn served_methods_match_the_declared_capabilities() {
    let host = TestServer::new().await;
    let found = ask(&host, "server/discover", json!({})).await.json();
    let declared = found["result"]["capabilities"].as_object().unwrap();
    let completion = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"}});
    for (method, params, capability) in [
        ("tools/list", json!({}), "tools"),
        ("prompts/list", json!({}), "prompts"),
        ("resources/list", json!({}), "resources"),
        ("resources/templates/list", json!({}), "resources"),
        ("completion/complete", completion, "completions"),
        ("logging/setLevel", json!({"level": "info"}), "logging"),
        ("tasks/get", json!({"taskId": "t"}), "tasks"),
    ] {
        let answer = ask(&host, method, params).await.json();
        let is_served = answer["error"]["code"] != json!(-32601);
        assert_eq!(
            is_served,
            declared.contains_key(capability),
            "{method}: {answer}, declared: {declared:?}"
        );
    }
}

/// The code of the newest protocol, and of those before it. MCP would have the URI repeated, which
/// a host that repeats nothing does not do.
#[tokio::test]
async fn an_unknown_resource_and_an_unknown_prompt_are_not_found() {
    let host = TestServer::new().await;
    let resource = json!({"uri": format!("memory://{CANARY}")});
    let answer = ask(&host, "resources/read", resource.clone()).await;
    refused("a resource", &answer, 200, -32602);
    let prompt = json!({"name": CANARY});
    let answer = ask(&host, "prompts/get", prompt).await;
    refused("a prompt", &answer, 200, -32602);
    let older = json!({"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": resource});
    let answer = host.send(post(&[], older.to_string())).await;
    refused("a resource, of old", &answer, 200, -32002);
}

/// This host has no changes to announce over MCP: it says that it accepts none, and ends the
/// stream.
#[tokio::test]
async fn a_subscription_is_acknowledged_first() {
    let host = TestServer::new().await;
    let wanted =
        json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": [CANARY]}});
    let answer = ask(&host, "subscriptions/listen", wanted).await;
    assert_eq!(answer.status, 200);
    let text = String::from_utf8_lossy(&answer.bytes);
    let frames = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let frames: Vec<Value> = frames
        .map(|frame| serde_json::from_str(frame).unwrap())
        .collect();
    let method = "notifications/subscriptions/acknowledged";
    assert_eq!(frames[0]["method"], json!(method), "{text}");
    let params = &frames[0]["params"];
    assert_eq!(params["notifications"], json!({}), "{text}");
    let id = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(params["_meta"][id], json!(7), "{text}");
    assert_eq!((frames.len(), &frames[1]["id"]), (2, &json!(7)), "{text}");
    assert!(!text.contains(CANARY), "{text}");
}

#[tokio::test]
async fn the_documentation_lists_every_tool() {
    let host = TestServer::new().await;
    let tools = ask(&host, "tools/list", json!({})).await.json();
    let tools = tools["result"]["tools"].as_array().unwrap();
    let mut served: Vec<&str> = tools.iter().filter_map(|t| t["name"].as_str()).collect();
    served.sort_unstable();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
    let document = std::fs::read_to_string(path).unwrap();
    let table = document.split("| MCP tool |").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .map_while(|row| row.strip_prefix("| `"));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    listed.sort_unstable();
    assert_eq!(listed, served);
}

/// A model relies on the descriptions of the tools.
#[tokio::test]
async fn tool_descriptions_state_the_actual_defaults() {
    let host = TestServer::new().await;
    let tools = ask(&host, "tools/list", json!({})).await.json();
    let tools = tools["result"]["tools"].as_array().unwrap();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == *name).unwrap();
    let threshold = format!("below 0.{}", RELEVANCE_THRESHOLD_PPM / 100_000);
    let about = find("memory_search")["description"].as_str().unwrap();
    assert!(about.contains(&threshold), "{threshold}: {about}");
    for name in ["memory_search", "memory_recall"] {
        let about = &find(name)["inputSchema"]["properties"]["time"]["description"];
        let about = about.as_str().unwrap();
        assert!(about.contains("filter (the default)"), "{name}: {about}");
    }
}
