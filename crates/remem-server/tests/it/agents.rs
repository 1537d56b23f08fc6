//! Agents: install, refusals, the closed shape of the inventory, peers, redaction, isolation, what
//! is degraded.

use remem_core::agent::InstallRequest;
use remem_core::capability::Facts;
use remem_core::{Agent, Permission, Policy};
use remem_testkit::TestServer;
use serde_json::{Value, json};

const INSTALL: &str = "/v1/host/remembrancer/agents";
const AGENTS: &str = "/v1/agents";

fn manifest(id: &str) -> Value {
    json!({"agentId": id, "persona": "Greeter", "modelClass": "general", "systemPrompt": "Say hello, prompt-canary."})
}

fn with(id: &str, more: Value) -> Value {
    let mut manifest = manifest(id);
    manifest
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    manifest
}

fn host_agent(id: &str, persona: &str, pack: &str) -> Agent {
    let manifest = with(id, json!({"persona": persona}))
        .as_object()
        .unwrap()
        .clone();
    Agent::new(
        InstallRequest {
            manifest,
            pack_name: Some(pack.to_owned()),
            ..InstallRequest::default()
        },
        &Policy::default(),
    )
    .unwrap()
}

fn facts() -> Facts {
    Facts {
        durable: true,
        writable: true,
        lexical: true,
        ttl: true,
        agents: true,
        ..Facts::default()
    }
}

/// Every rule of the closed shape, by hand.
fn check_entry(entry: &Value) {
    let required = [
        "agentId",
        "persona",
        "label",
        "modelClass",
        "packName",
        "packVersion",
        "toolAllowlist",
        "hasHandoffSchemas",
    ];
    let optional = [
        "description",
        "memoryShape",
        "confidenceThreshold",
        "degraded",
        "memoryDegraded",
        "degradedMemoryDimensions",
    ];
    let map = entry.as_object().unwrap();
    assert!(
        required.iter().all(|name| map.contains_key(*name)),
        "{entry}"
    );
    assert!(
        map.keys()
            .all(|name| required.contains(&name.as_str()) || optional.contains(&name.as_str())),
        "{entry}"
    );
    for name in &required[..6] {
        assert!(
            map[*name].as_str().is_some_and(|text| !text.is_empty()),
            "{name} of {entry}"
        );
    }
    assert!(
        entry["toolAllowlist"]
            .as_array()
            .unwrap()
            .iter()
            .all(Value::is_string)
            && entry["hasHandoffSchemas"].is_boolean()
    );
    if let Some(degraded) = map.get("degraded").map(|d| d.as_array().unwrap()) {
        assert!(
            !degraded.is_empty() && degraded.iter().all(|key| !key.as_str().unwrap().is_empty())
        );
        assert!(
            degraded
                .iter()
                .enumerate()
                .all(|(n, key)| !degraded[..n].contains(key))
        );
    }
    let dimensions = map
        .get("degradedMemoryDimensions")
        .map_or(0, |d| d.as_array().unwrap().len());
    assert_eq!(
        map.get("memoryDegraded") == Some(&json!(true)),
        dimensions > 0,
        "{entry}"
    );
    assert!(map.get("memoryDegraded") != Some(&json!(false)));
    assert!(!entry.to_string().contains("canary"), "{entry}");
}

#[tokio::test]
async fn an_agent_is_installed_listed_replaced_and_removed() {
    let host = TestServer::new().await;
    assert_eq!(
        host.get(AGENTS).await.json(),
        json!({"agents": [], "total": 0})
    );
    let full = with(
        "vendor.acme.support.tierOne",
        json!({"label": "Support", "description": "Answers.", "toolAllowlist": ["openwop:memory.search"], "memoryShape": {"longTerm": true},
            "confidence": {"defaultThreshold": 0.5}, "handoff": {"taskSchemaRef": "schema-canary.json"}, "evalSuiteRef": "canary.json",
            "promptLibraryRef": "canary", "promptOverrides": {"user": "canary"}}),
    );
    let body = json!({"manifest": full, "packName": "acme.support", "packVersion": "1.2.3"});
    let first = host.post(INSTALL, body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.json());
    let entry = first.json();
    check_entry(&entry);
    let expected = json!({"agentId": "vendor.acme.support.tierOne", "persona": "Greeter", "label": "Support", "description": "Answers.",
        "modelClass": "general", "packName": "acme.support", "packVersion": "1.2.3", "toolAllowlist": ["openwop:memory.search"],
        "hasHandoffSchemas": true, "memoryShape": {"scratchpad": false, "conversation": false, "longTerm": true}, "confidenceThreshold": 0.5});
    assert_eq!(entry, expected);
    assert_eq!(
        host.post(INSTALL, json!({"manifest": manifest("local.a.b")}))
            .await
            .status,
        201
    );
    assert_eq!(
        host.post(INSTALL, body).await.status,
        200,
        "it took the place of the first"
    );
    let plain = json!({"agentId": "local.a.b", "persona": "Greeter", "label": "Greeter", "modelClass": "general", "packName": "local",
        "packVersion": "0.0.0", "toolAllowlist": [], "hasHandoffSchemas": false});
    assert_eq!(
        host.get(AGENTS).await.json(),
        json!({"agents": [plain, expected], "total": 2})
    );
    assert_eq!(host.get(&format!("{AGENTS}/local.a.b")).await.json(), plain);
    assert_eq!(
        host.delete(&format!("{INSTALL}/local.a.b")).await.status,
        204
    );
    assert_eq!(
        host.delete(&format!("{INSTALL}/local.a.b")).await.status,
        404
    );
    for nobody in [
        "local.a.b",
        "roster",
        "org-chart",
        "x",
        "%00",
        "%ff",
        "a%2Fb",
    ] {
        let missing = host.get(&format!("{AGENTS}/{nobody}")).await;
        assert_eq!(
            (missing.status.as_u16(), missing.code().as_str()),
            (404, "not_found"),
            "{nobody}"
        );
        assert_eq!(
            host.delete(&format!("{INSTALL}/{nobody}")).await.status,
            404,
            "{nobody}"
        );
    }
    let again = host
        .post(INSTALL, json!({"manifest": manifest("local.a.b")}))
        .await;
    assert_eq!(again.status, 201, "a removed one does not count");
}

#[tokio::test]
async fn a_refusal_names_the_field_and_the_rule() {
    let host = TestServer::new().await;
    let long = "x".repeat(200_000);
    let rows = [
        ("agentId", json!({"manifest": manifest("canary")})),
        (
            "modelClass",
            json!({"manifest": with("local.a.b", json!({"modelClass": "canary"}))}),
        ),
        (
            "persona",
            json!({"manifest": with("local.a.b", json!({"persona": ""}))}),
        ),
        (
            "systemPrompt",
            json!({"manifest": with("local.a.b", json!({"systemPromptRef": "canary.md"}))}),
        ),
        (
            "requiresCapabilities",
            json!({"manifest": with("local.a.b", json!({"requiresCapabilities": ["canary", "canary"]}))}),
        ),
        (
            "memoryShape",
            json!({"manifest": with("local.a.b", json!({"memoryShape": {"canary": true}}))}),
        ),
        (
            "confidence",
            json!({"manifest": with("local.a.b", json!({"confidence": {"defaultThreshold": 2}}))}),
        ),
        (
            "manifest",
            json!({"manifest": with("local.a.b", json!({"canary": 1}))}),
        ),
        (
            "manifest",
            json!({"manifest": with("local.a.b", json!({"systemPrompt": long}))}),
        ),
        (
            "packName",
            json!({"manifest": manifest("local.a.b"), "packName": "canary\n"}),
        ),
        (
            "packVersion",
            json!({"manifest": manifest("local.a.b"), "packVersion": ""}),
        ),
        (
            "peerDependencies",
            json!({"manifest": manifest("local.a.b"), "peerDependencies": {"": {}}}),
        ),
    ];
    for (field, body) in rows {
        let refused = host.post(INSTALL, body).await;
        let text = String::from_utf8(refused.bytes.clone()).unwrap();
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (422, "validation_error"),
            "{field}: {text}"
        );
        assert_eq!(refused.json()["details"]["field"], field, "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
    let malformed = [
        json!({}),
        json!({"manifest": []}),
        json!({"manifest": manifest("local.a.b"), "canary": 1}),
        json!({"manifest": manifest("local.a.b"), "peerDependencies": {"canary": {"canary": 1}}}),
    ];
    for body in malformed {
        let refused = host.post(INSTALL, body).await;
        assert_eq!(refused.status, 400);
        assert!(!String::from_utf8_lossy(&refused.bytes).contains("canary"));
    }
    assert_eq!(host.get(AGENTS).await.json()["total"], 0);
}

#[tokio::test]
async fn a_prompt_may_be_a_workspace_file_of_the_tenant() {
    let host = TestServer::new().await;
    let mut manifest = manifest("local.a.b");
    manifest.as_object_mut().unwrap().remove("systemPrompt");
    manifest["systemPromptRef"] = json!("prompts/a.md");
    let refused = host.post(INSTALL, json!({"manifest": manifest})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["details"].clone()),
        (422, json!({"field": "systemPromptRef"}))
    );
    assert!(
        refused.json()["message"]
            .as_str()
            .unwrap()
            .contains("workspace files")
    );
    host.key("b", "key-of-b", &Permission::ALL).await;
    let file = "/v1/host/workspace/files/prompts/a.md";
    assert_eq!(
        host.call("key-of-b", "PUT", file, &[], r#"{"content": "of b"}"#)
            .await
            .status,
        200
    );
    assert_eq!(
        host.post(INSTALL, json!({"manifest": manifest}))
            .await
            .status,
        422,
        "another tenant's file is none"
    );
    assert_eq!(
        host.call("key-of-a", "PUT", file, &[], r#"{"content": "of a"}"#)
            .await
            .status,
        200
    );
    assert_eq!(
        host.post(INSTALL, json!({"manifest": manifest}))
            .await
            .status,
        201
    );
    for climbing in ["../a.md", "/etc/passwd", "prompts/\u{0}", "x@1"] {
        manifest["systemPromptRef"] = json!(climbing);
        assert_eq!(
            host.post(INSTALL, json!({"manifest": manifest}))
                .await
                .status,
            422,
            "{climbing}"
        );
    }
}

#[tokio::test]
async fn a_missing_required_peer_is_refused_and_an_optional_one_degrades() {
    let host = TestServer::with_facts(
        Policy::default(),
        vec![],
        facts(),
        vec![host_agent("core.host.tools", "T", "host-tools")],
    )
    .await;
    let body = json!({"manifest": with("local.a.b", json!({"requiresCapabilities": ["memory.search", "host.secrets", "aiProviders"]})),
        "packName": "own", "peerDependencies": {"own": {"optional": true}, "host-tools": {}, "needed": {"optional": false}, "nice": {"optional": true}}});
    let refused = host.post(INSTALL, body.clone()).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (422, "pack_peer_dependency_missing")
    );
    assert_eq!(host.get(&format!("{AGENTS}/local.a.b")).await.status, 404);
    assert_eq!(
        host.post(
            INSTALL,
            json!({"manifest": manifest("local.a.needed"), "packName": "needed"})
        )
        .await
        .status,
        201
    );
    let installed = host.post(INSTALL, body).await;
    assert_eq!(installed.status, 201, "{}", installed.json());
    let degraded = json!(["nice", "own", "host.secrets", "aiProviders"]);
    check_entry(&installed.json());
    assert_eq!(
        installed.json()["degraded"],
        degraded,
        "the own pack is no peer of itself"
    );
    assert_eq!(
        host.get(&format!("{AGENTS}/local.a.b")).await.json(),
        installed.json()
    );
    assert_eq!(
        host.post(
            INSTALL,
            json!({"manifest": manifest("local.a.nice"), "packName": "nice"})
        )
        .await
        .status,
        201
    );
    let list = host.get(AGENTS).await.json();
    list["agents"]
        .as_array()
        .unwrap()
        .iter()
        .for_each(check_entry);
    assert_eq!(
        list["agents"][1]["degraded"],
        json!(["own", "host.secrets", "aiProviders"])
    );
    assert!(list["agents"][0].get("degraded").is_none());
}

#[tokio::test]
async fn agents_report_degraded_memory_when_storage_is_not_durable() {
    let shapes = [
        (json!({"longTerm": true}), vec!["long-term-durability"]),
        (json!({"scratchpad": true, "conversation": true}), vec![]),
        (json!({"longTerm": false}), vec![]),
        (json!({}), vec![]),
    ];
    for durable in [true, false] {
        let host = TestServer::with_facts(
            Policy::default(),
            vec![],
            Facts { durable, ..facts() },
            vec![],
        )
        .await;
        for (shape, missing) in &shapes {
            let body = json!({"manifest": with("local.a.b", json!({"memoryShape": shape}))});
            let entry = host.post(INSTALL, body).await.json();
            check_entry(&entry);
            let expected = if durable || missing.is_empty() {
                Value::Null
            } else {
                json!(missing)
            };
            assert_eq!(entry["degradedMemoryDimensions"], expected, "{shape}");
            assert_eq!(host.get(&format!("{AGENTS}/local.a.b")).await.json(), entry);
        }
        let document = host
            .call("", "GET", "/.well-known/openwop", &[], "")
            .await
            .json();
        assert_eq!(remem_wire::discovery::is_memory_profile(&document), durable);
        assert_eq!(
            document["agents"]["manifestRuntime"]["installScope"],
            "tenant"
        );
    }
    let host = TestServer::with_facts(
        Policy::default(),
        vec![],
        Facts {
            agents: true,
            ..Facts::default()
        },
        vec![],
    )
    .await;
    let entry = host
        .post(
            INSTALL,
            json!({"manifest": with("local.a.b", json!({"memoryShape": {"longTerm": true}}))}),
        )
        .await
        .json();
    assert_eq!(
        entry["degradedMemoryDimensions"],
        json!(["write", "long-term-durability"])
    );
}

#[tokio::test]
async fn tenants_see_their_own_agents_and_those_of_the_host() {
    let agents = vec![
        host_agent("core.host.one", "of the host", "host"),
        host_agent("core.host.two", "of the host", "host"),
    ];
    let host = TestServer::with_facts(
        Policy {
            agents_max: 2,
            ..Policy::default()
        },
        vec![],
        facts(),
        agents,
    )
    .await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let own = json!({"manifest": with("core.host.two", json!({"persona": "of a"}))});
    assert_eq!(host.post(INSTALL, own.clone()).await.status, 201);
    assert_eq!(
        host.post(INSTALL, json!({"manifest": manifest("local.a.b")}))
            .await
            .status,
        201
    );
    let full = host
        .post(INSTALL, json!({"manifest": manifest("local.a.c")}))
        .await;
    assert_eq!(
        (
            full.status.as_u16(),
            full.json()["details"]["field"].clone()
        ),
        (422, json!("agents")),
        "two are enough"
    );
    assert_eq!(
        host.post(INSTALL, own).await.status,
        200,
        "one that is there may be replaced"
    );
    let names = |list: Value| -> Vec<(String, String)> {
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        list["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| (text(&a["agentId"]), text(&a["persona"])))
            .collect()
    };
    let pair = |id: &str, persona: &str| (id.to_owned(), persona.to_owned());
    let of_host = [
        pair("core.host.one", "of the host"),
        pair("core.host.two", "of the host"),
    ];
    let theirs = host.call("key-of-b", "GET", AGENTS, &[], "").await.json();
    assert_eq!(
        (theirs["total"].clone(), names(theirs)),
        (json!(2), of_host.to_vec())
    );
    let mine = [
        of_host[0].clone(),
        pair("core.host.two", "of a"),
        pair("local.a.b", "Greeter"),
    ];
    assert_eq!(names(host.get(AGENTS).await.json()), mine);
    let unknown = host
        .call("key-of-b", "GET", &format!("{AGENTS}/local.a.b"), &[], "")
        .await;
    let never = host
        .call(
            "key-of-b",
            "GET",
            &format!("{AGENTS}/local.never.was"),
            &[],
            "",
        )
        .await;
    assert_eq!((unknown.status.as_u16(), unknown.bytes), (404, never.bytes));
    for (key, id) in [
        ("key-of-b", "local.a.b"),
        ("key-of-b", "core.host.one"),
        ("key-of-a", "core.host.one"),
    ] {
        assert_eq!(
            host.call(key, "DELETE", &format!("{INSTALL}/{id}"), &[], "")
                .await
                .status,
            404,
            "{key} {id}"
        );
    }
    assert_eq!(
        host.delete(&format!("{INSTALL}/core.host.two"))
            .await
            .status,
        204
    );
    assert_eq!(
        host.get(&format!("{AGENTS}/core.host.two")).await.json()["persona"],
        "of the host",
        "it is the host's again"
    );
}

#[tokio::test]
async fn secrets_do_not_reach_manifests() {
    let agents = vec![host_agent("core.host.one", "knows hunter2-hunter2", "host")];
    let host = TestServer::with_facts(
        Policy::default(),
        vec![("db", "hunter2-hunter2")],
        facts(),
        agents,
    )
    .await;
    let named = host
        .post(
            INSTALL,
            json!({"manifest": manifest("local.a.hunter2-hunter2")}),
        )
        .await;
    assert_eq!(
        (
            named.status.as_u16(),
            named.json()["details"]["field"].clone()
        ),
        (422, json!("agentId"))
    );
    let leaky = with(
        "local.a.b",
        json!({"systemPrompt": "the password is hunter2-hunter2", "description": "hunter2-hunter2", "toolAllowlist": ["x:hunter2-hunter2"]}),
    );
    let entry = host
        .post(
            INSTALL,
            json!({"manifest": leaky, "packName": "hunter2-hunter2"}),
        )
        .await
        .json();
    check_entry(&entry);
    assert_eq!(
        (&entry["description"], &entry["packName"]),
        (&json!("[REDACTED:db]"), &json!("[REDACTED:db]"))
    );
    assert_eq!(entry["toolAllowlist"], json!(["x:[REDACTED:db]"]));
    let list = host.get(AGENTS).await;
    assert!(
        !String::from_utf8(list.bytes.clone())
            .unwrap()
            .contains("hunter2")
    );
    assert_eq!(
        list.json()["agents"][0]["persona"],
        "knows [REDACTED:db]",
        "what the host brings is looked at, too"
    );
    let tenant = remem_core::TenantId::parse("a").unwrap();
    let stored = host
        .store
        .record(&tenant, remem_core::RecordKind::Agent, "local.a.b")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        stored.body["manifest"]["systemPrompt"],
        "the password is [REDACTED:db]"
    );
    assert!(!Value::Object(stored.body).to_string().contains("hunter2"));
}

#[tokio::test]
async fn reading_and_installing_agents_need_different_scopes() {
    let host = TestServer::new().await;
    host.key("a", "reader", &[Permission::ManifestRead]).await;
    host.key("a", "writer", &[Permission::ManifestWrite]).await;
    let body = json!({"manifest": manifest("local.a.b")}).to_string();
    assert_eq!(
        host.call("writer", "POST", INSTALL, &[], body.clone())
            .await
            .status,
        201
    );
    assert_eq!(
        host.call("reader", "GET", AGENTS, &[], "").await.json()["total"],
        1
    );
    let refused = [
        ("reader", "POST", INSTALL.to_owned(), "manifest:write"),
        (
            "reader",
            "DELETE",
            format!("{INSTALL}/local.a.b"),
            "manifest:write",
        ),
        ("writer", "GET", AGENTS.to_owned(), "manifest:read"),
        (
            "writer",
            "GET",
            format!("{AGENTS}/local.a.b"),
            "manifest:read",
        ),
    ];
    for (key, method, path, scope) in refused {
        let answer = host.call(key, method, &path, &[], body.clone()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["details"].clone()),
            (403, json!({"scopeRequired": scope})),
            "{method} {path}"
        );
    }
}
