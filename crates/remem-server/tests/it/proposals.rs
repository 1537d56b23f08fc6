//! Proposals and automations over HTTP: the protocol's paths and shapes, and what this host adds.

use axum::http::StatusCode;
use remem_core::Permission;
use remem_testkit::{TestResponse, TestServer};
use serde_json::{Value, json};

const PROPOSALS: &str = "/v1/host/remembrancer/proposals";
const OWN: &str = "/v1/host/remembrancer";
/// The protocol's closed shape.
const FIELDS: [&str; 12] = [
    "id",
    "kind",
    "state",
    "title",
    "rationale",
    "artifact",
    "provenance",
    "duplicateOf",
    "owner",
    "activation",
    "createdAt",
    "updatedAt",
];

fn template(text: &str) -> Value {
    json!({"templateId": "greeting", "version": "1.0.0", "text": text, "variables": []})
}

async fn submit(host: &TestServer, artifact: Value) -> Value {
    let body = json!({"kind": "prompt-template", "title": "A greeting", "rationale": "It is often said.", "artifact": artifact});
    let created = host.post(&format!("{OWN}/proposals"), body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.json());
    created.json()
}

fn is_closed(proposal: &Value) {
    let map = proposal.as_object().unwrap();
    assert!(
        map.keys().all(|key| FIELDS.contains(&key.as_str())),
        "{map:?}"
    );
    for needed in [
        "id",
        "kind",
        "state",
        "artifact",
        "provenance",
        "owner",
        "createdAt",
    ] {
        assert!(map.contains_key(needed), "{needed}");
    }
    assert!(
        proposal["provenance"]
            .as_object()
            .unwrap()
            .keys()
            .all(|key| ["sourceRunIds", "synthesizerModel"].contains(&key.as_str()))
    );
    assert!(
        proposal["owner"]
            .as_object()
            .unwrap()
            .keys()
            .all(|key| ["tenant", "principal"].contains(&key.as_str()))
    );
}

async fn patch(host: &TestServer, id: &str, body: Value) -> TestResponse {
    host.call(
        "key-of-a",
        "PATCH",
        &format!("{PROPOSALS}/{id}"),
        &[],
        body.to_string(),
    )
    .await
}

#[tokio::test]
async fn a_proposal_is_reviewed_and_applied() {
    let host = TestServer::new().await;
    let proposal = submit(&host, template("Hello")).await;
    let id = proposal["id"].as_str().unwrap();
    is_closed(&proposal);
    assert_eq!(
        (
            &proposal["state"],
            &proposal["activation"],
            &proposal["duplicateOf"]
        ),
        (&json!("draft"), &Value::Null, &Value::Null)
    );
    assert_eq!(proposal["owner"]["tenant"], json!("a"));
    assert_eq!(
        host.get(&format!("{PROPOSALS}/{id}")).await.json(),
        proposal
    );
    let list = host
        .get(&format!("{PROPOSALS}?state=draft&kind=prompt-template"))
        .await
        .json();
    assert_eq!(list, json!({"proposals": [proposal]}));
    assert_eq!(
        host.get(&format!("{PROPOSALS}?state=applied")).await.json(),
        json!({"proposals": []})
    );
    let digest = |list: &Value, n: usize| {
        list["revisions"][n]["artifactDigest"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let revisions = host
        .get(&format!("{OWN}/proposals/{id}/revisions"))
        .await
        .json();
    let first = digest(&revisions, 0);

    let revised = patch(
        &host,
        id,
        json!({"artifact": template("Good day"), "artifactDigest": first}),
    )
    .await;
    assert_eq!(
        (revised.status, &revised.json()["state"]),
        (StatusCode::OK, &json!("revised"))
    );
    is_closed(&revised.json());
    let stale = patch(&host, id, json!({"title": "x", "artifactDigest": first})).await;
    assert_eq!(
        (stale.status.as_u16(), stale.code().as_str()),
        (409, "proposal_stale")
    );
    let stale = host
        .post(
            &format!("{PROPOSALS}/{id}/apply"),
            json!({"artifactDigest": first}),
        )
        .await;
    assert_eq!(
        (stale.status.as_u16(), stale.code().as_str()),
        (409, "proposal_stale")
    );

    let revisions = host
        .get(&format!("{OWN}/proposals/{id}/revisions"))
        .await
        .json();
    let second = digest(&revisions, 1);
    let applied = host
        .post(
            &format!("{PROPOSALS}/{id}/apply"),
            json!({"artifactDigest": second}),
        )
        .await;
    assert_eq!(applied.status, StatusCode::OK, "{}", applied.json());
    let applied = applied.json();
    is_closed(&applied);
    assert_eq!(
        applied["activation"],
        json!({"approvalId": null, "installedArtifactRef": "prompt-template/greeting"})
    );
    let installed = host.get(&format!("{OWN}/installed")).await.json()["installed"].clone();
    assert_eq!(
        (&installed[0]["ref"], &installed[0]["artifactDigest"]),
        (&json!("prompt-template/greeting"), &json!(second))
    );
    let text = r#"{"templateId":"greeting","text":"Good day","variables":[],"version":"1.0.0"}"#;
    assert_eq!(installed[0]["artifact"], json!(text));
    for (method, path) in [("POST", "/apply"), ("POST", "/reject"), ("DELETE", "")] {
        let refused = host
            .call(
                "key-of-a",
                method,
                &format!("{PROPOSALS}/{id}{path}"),
                &[],
                "{}",
            )
            .await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (409, "proposal_state_conflict"),
            "{method} {path}"
        );
        assert_eq!(refused.json()["details"], json!({"state": "applied"}));
    }
}

#[tokio::test]
async fn a_submission_is_idempotent_by_key() {
    let host = TestServer::new().await;
    let body = json!({"kind": "prompt-template", "artifact": template("Hello")}).to_string();
    let submit = async |body: &str| {
        host.call(
            "key-of-a",
            "POST",
            &format!("{OWN}/proposals"),
            &[("idempotency-key", "k")],
            body.to_owned(),
        )
        .await
    };
    let first = submit(&body).await;
    let again = submit(&body).await;
    assert_eq!(
        (first.json(), first.header("openwop-idempotent-replay")),
        (again.json(), "")
    );
    assert_eq!(
        (again.status, again.header("openwop-idempotent-replay")),
        (StatusCode::CREATED, "true")
    );
    let other = submit(&body.replace("Hello", "Hi")).await;
    assert_eq!(
        (other.status.as_u16(), other.code().as_str()),
        (409, "idempotency_key_mismatch")
    );
    assert_eq!(
        host.get(PROPOSALS).await.json()["proposals"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_proposal_is_rejected_and_archived() {
    let host = TestServer::new().await;
    let id = submit(&host, template("Hello")).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let rejected = host
        .call(
            "key-of-a",
            "POST",
            &format!("{PROPOSALS}/{id}/reject"),
            &[],
            "",
        )
        .await;
    assert_eq!(
        (rejected.status, &rejected.json()["state"]),
        (StatusCode::OK, &json!("rejected"))
    );
    let archived = host.delete(&format!("{PROPOSALS}/{id}")).await;
    assert_eq!(
        (archived.status, &archived.json()["state"]),
        (StatusCode::OK, &json!("archived"))
    );
    let events = host.get(&format!("{OWN}/events")).await.json()["events"].clone();
    let kinds: Vec<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["proposal.created", "proposal.rejected", "proposal.archived"]
    );
    assert!(
        !events.to_string().contains("often said"),
        "events carry no words of callers"
    );
}

#[tokio::test]
async fn apply_without_its_scope_is_refused_and_audited() {
    let host = TestServer::new().await;
    let id = submit(&host, template("Hello")).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let before = host.get(&format!("{PROPOSALS}/{id}")).await.json();
    let weak: Vec<Permission> = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::ProposalsApply)
        .collect();
    host.key("a", "weak", &weak).await;
    for body in ["", "{}"] {
        let refused = host
            .call(
                "weak",
                "POST",
                &format!("{PROPOSALS}/{id}/apply"),
                &[],
                body,
            )
            .await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (403, "forbidden")
        );
        assert_eq!(
            refused.json()["details"],
            json!({"scopeRequired": "proposals:apply"})
        );
    }
    assert_eq!(host.get(&format!("{PROPOSALS}/{id}")).await.json(), before);
    let events = host.get(&format!("{OWN}/events")).await.json()["events"].clone();
    let denied: Vec<&Value> = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == json!("authorization.decided"))
        .collect();
    assert_eq!(
        (denied.len(), &denied[0]["payload"]["allowed"]),
        (2, &json!(false))
    );
}

#[tokio::test]
async fn a_proposal_is_visible_only_to_its_tenant() {
    let host = TestServer::new().await;
    let id = submit(&host, template("Hello")).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    host.key("b", "key-of-b", &Permission::ALL).await;
    for (method, path, body) in [
        ("GET", String::new(), ""),
        ("PATCH", String::new(), r#"{"title": "x"}"#),
        ("DELETE", String::new(), ""),
        ("POST", "/apply".to_owned(), "{}"),
        ("POST", "/reject".to_owned(), ""),
    ] {
        let foreign = host
            .call(
                "key-of-b",
                method,
                &format!("{PROPOSALS}/{id}{path}"),
                &[],
                body,
            )
            .await;
        let unknown = host
            .call(
                "key-of-b",
                method,
                &format!("{PROPOSALS}/prop_none{path}"),
                &[],
                body,
            )
            .await;
        assert_eq!(
            (foreign.status, &foreign.bytes),
            (StatusCode::NOT_FOUND, &unknown.bytes),
            "{method} {path}"
        );
    }
    assert_eq!(
        host.call("key-of-b", "GET", PROPOSALS, &[], "")
            .await
            .json(),
        json!({"proposals": []})
    );
}

#[tokio::test]
async fn refusals_name_the_problem_and_do_not_echo_input() {
    let host = TestServer::new().await;
    let malformed = submit(&host, json!({"templateId": "CANARY c4n4ry"})).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = host
        .post(&format!("{PROPOSALS}/{malformed}/apply"), json!({}))
        .await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (422, "proposal_malformed")
    );
    assert_eq!(refused.json()["details"]["field"], json!("templateId"));
    assert!(!String::from_utf8(refused.bytes).unwrap().contains("c4n4ry"));
    let one = submit(&host, template("Hello")).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        host.post(&format!("{PROPOSALS}/{one}/apply"), json!({}))
            .await
            .status,
        StatusCode::OK
    );
    let same = submit(&host, template("Hello, all")).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let taken = host
        .post(&format!("{PROPOSALS}/{same}/apply"), json!({}))
        .await;
    assert_eq!(
        (taken.status.as_u16(), taken.code().as_str()),
        (409, "proposal_install_conflict")
    );
    let no_gate = host
        .post(&format!("{OWN}/proposals/{same}/approve"), json!({}))
        .await;
    assert_eq!(
        (no_gate.status.as_u16(), no_gate.code().as_str()),
        (403, "forbidden"),
        "nobody approves what is their own"
    );
    assert_eq!(no_gate.json()["details"], json!({"reason": "own-proposal"}));
    host.key("a", "second", &Permission::ALL).await;
    let no_gate = host
        .call(
            "second",
            "POST",
            &format!("{OWN}/proposals/{same}/approve"),
            &[],
            "{}",
        )
        .await;
    assert_eq!(
        (no_gate.status.as_u16(), no_gate.code().as_str()),
        (409, "proposal_gate_closed")
    );
    assert_eq!(
        host.get(&format!("{OWN}/proposals/{same}/gate"))
            .await
            .status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn an_approval_gate_opens_after_its_quorum() {
    let host = TestServer::with_approval_gate(2).await;
    host.key("a", "second", &Permission::ALL).await;
    host.key("a", "third", &Permission::ALL).await;
    let id = submit(&host, template("Hello")).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let asked = host
        .post(&format!("{PROPOSALS}/{id}/apply"), json!({}))
        .await;
    assert_eq!(
        (asked.status, &asked.json()["state"]),
        (StatusCode::ACCEPTED, &json!("draft"))
    );
    is_closed(&asked.json());
    let gate = host.get(&format!("{OWN}/proposals/{id}/gate")).await.json();
    assert_eq!(
        (&gate["state"], &gate["required"], &gate["approvals"]),
        (&json!("open"), &json!(2), &json!([]))
    );
    let approve = async |key: &str| {
        host.call(
            key,
            "POST",
            &format!("{OWN}/proposals/{id}/approve"),
            &[],
            "",
        )
        .await
    };
    assert_eq!(approve("key-of-a").await.status, StatusCode::FORBIDDEN);
    assert_eq!(approve("second").await.status, StatusCode::ACCEPTED);
    assert_eq!(approve("second").await.status, StatusCode::ACCEPTED);
    let passed = approve("third").await;
    assert_eq!(
        (passed.status, &passed.json()["state"]),
        (StatusCode::OK, &json!("applied"))
    );
    assert_eq!(passed.json()["activation"]["approvalId"], gate["id"]);
    let body = r#"{"reason": "urgent"}"#;
    let denied = host
        .call(
            "second",
            "POST",
            &format!("{OWN}/proposals/{id}/override"),
            &[],
            body,
        )
        .await;
    assert_eq!(
        (denied.status.as_u16(), &denied.json()["details"]["reason"]),
        (403, &json!("override-off"))
    );
    let discovery = host.get("/.well-known/openwop").await.json();
    assert_eq!(
        discovery["agents"]["proposals"]["activation"],
        json!("approval-gate")
    );
}

#[tokio::test]
async fn discovery_advertises_proposals_and_roles() {
    let host = TestServer::new().await;
    let document = host.get("/.well-known/openwop").await.json();
    let kinds = [
        "agent-pack",
        "workflow-chain-pack",
        "prompt-template",
        "automation",
    ];
    let advertised =
        json!({"artifactKinds": kinds, "activation": "direct-rbac", "duplicationDetection": true});
    assert_eq!(document["agents"]["proposals"], advertised);
    let authorization = &document["authorization"];
    assert_eq!(
        (&authorization["supported"], &authorization["failClosed"]),
        (&json!(true), &json!(true))
    );
    let roles: Vec<&str> = authorization["roles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| role["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["reader", "writer", "reviewer", "operator", "admin"]);
}

#[tokio::test]
async fn with_seams_there_is_always_one_seeded_draft() {
    let host = TestServer::with_seams().await;
    let drafts =
        async || host.get(&format!("{PROPOSALS}?state=draft")).await.json()["proposals"].clone();
    let seeded = drafts().await;
    assert_eq!(seeded.as_array().unwrap().len(), 1);
    is_closed(&seeded[0]);
    assert_eq!(drafts().await, seeded, "one is enough");
    let weak: Vec<Permission> = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::ProposalsApply)
        .collect();
    host.key("a", "suite", &weak).await;
    let id = seeded[0]["id"].as_str().unwrap();
    let refused = host
        .call(
            "suite",
            "POST",
            &format!("{PROPOSALS}/{id}/apply"),
            &[],
            "{}",
        )
        .await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    host.post(&format!("{PROPOSALS}/{id}/reject"), json!({}))
        .await;
    assert_eq!(
        drafts().await.as_array().unwrap().len(),
        1,
        "another one takes its place"
    );
    assert_eq!(
        TestServer::new().await.get(PROPOSALS).await.json(),
        json!({"proposals": []}),
        "and none without seams"
    );
}

#[tokio::test]
async fn proposal_check_paths_exist_only_with_seams() {
    const CHECKED: &str = "/v1/host/sample/proposals";
    let plain = TestServer::new().await;
    let checked = TestServer::with_seams().await;
    for host in [&plain, &checked] {
        let proposal = submit(host, template("Hello")).await;
        let id = proposal["id"].as_str().unwrap();
        assert_eq!(
            host.get(&format!("{PROPOSALS}/{id}")).await.json(),
            proposal
        );
        for (method, path) in [
            ("GET", CHECKED.to_owned()),
            ("GET", format!("{CHECKED}/{id}")),
            ("PATCH", format!("{CHECKED}/{id}")),
            ("POST", format!("{CHECKED}/{id}/apply")),
            ("POST", format!("{CHECKED}/{id}/reject")),
            ("DELETE", format!("{CHECKED}/{id}")),
        ] {
            let answer = host.call("key-of-a", method, &path, &[], "{}").await;
            let there = answer.status != StatusCode::NOT_FOUND;
            assert_eq!(there, host.engine.has_test_endpoints(), "{method} {path}");
            if there && method == "GET" {
                let same = host.get(&path.replace(CHECKED, PROPOSALS)).await;
                assert_eq!(answer.json(), same.json(), "{path}");
            }
        }
    }
    let document = checked.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    assert!(
        paths
            .keys()
            .all(|path| !path.starts_with("/v1/host/sample"))
    );
}

#[tokio::test]
async fn traces_are_accepted_and_validated() {
    let host = TestServer::new().await;
    let trace = host
        .post(
            &format!("{OWN}/traces"),
            json!({"agentId": "local.a.b", "tools": ["a", "b"], "task": "t", "runId": "run_1"}),
        )
        .await;
    assert_eq!(trace.status, StatusCode::CREATED, "{}", trace.json());
    for bad in [
        json!({"agentId": "", "tools": ["a"]}),
        json!({"agentId": "x", "tools": []}),
        json!({"agentId": "x", "tools": vec!["a"; 65]}),
        json!({"agentId": "x", "tools": ["a\nb"]}),
        json!({"agentId": "x", "tools": ["a"], "task": "x".repeat(4_001)}),
        json!({"agentId": "x", "tools": ["a"], "runId": ""}),
    ] {
        let refused = host.post(&format!("{OWN}/traces"), bad.clone()).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (422, "validation_error"),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn automations_are_set_paused_and_removed() {
    let host = TestServer::new().await;
    let path = format!("{OWN}/automations/nightly");
    let body = json!({"automationId": "nightly", "schedule": {"every": "P1D"}, "workflowId": "w", "inputs": {"a": 1}});
    let put = async |body: &Value| {
        host.call("key-of-a", "PUT", &path, &[], body.to_string())
            .await
    };
    let set = put(&body).await;
    assert_eq!(set.status, StatusCode::CREATED, "{}", set.json());
    assert_eq!(
        (&set.json()["enabled"], &set.json()["nextDueAt"]),
        (&json!(true), &json!("2023-11-15T22:13:20.000Z"))
    );
    assert_eq!(put(&body).await.status, StatusCode::OK);
    let paused = host
        .call("key-of-a", "POST", &format!("{path}/pause"), &[], "")
        .await
        .json();
    assert_eq!(
        (&paused["enabled"], &paused["nextDueAt"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(host.get(&path).await.json(), paused);
    assert_eq!(
        host.get(&format!("{OWN}/automations")).await.json(),
        json!({"automations": [paused]})
    );
    assert_eq!(
        host.call("key-of-a", "POST", &format!("{path}/resume"), &[], "")
            .await
            .json()["enabled"],
        json!(true)
    );
    let bad = put(
        &json!({"automationId": "nightly", "schedule": {"every": "c4n4ry"}, "workflowId": "w"}),
    )
    .await;
    assert_eq!(
        (bad.status.as_u16(), bad.code().as_str()),
        (422, "validation_error")
    );
    assert!(!String::from_utf8(bad.bytes).unwrap().contains("c4n4ry"));
    assert_eq!(host.delete(&path).await.status, StatusCode::NO_CONTENT);
    for (method, more) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/pause"),
        ("POST", "/resume"),
    ] {
        assert_eq!(
            host.call("key-of-a", method, &format!("{path}{more}"), &[], "")
                .await
                .status,
            StatusCode::NOT_FOUND,
            "{method} {more}"
        );
    }
}
