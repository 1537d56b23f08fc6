//! Artifacts: one text for equal values, a hash that has to match, the rules of each kind, and the
//! rendering of templates.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::Policy;
use remem_core::proposal::{Artifact, Installable, PromptTemplate, ProposalKind, check, is_name};
use serde_json::{Map, Value, json};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn good(kind: ProposalKind) -> Value {
    let manifest = json!({"agentId": "local.a.b", "persona": "P", "modelClass": "general", "systemPrompt": "Be brief."});
    let workflow = json!({"id": "w", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    match kind {
        ProposalKind::AgentPack => {
            json!({"name": "pack.a-1", "version": "0.1.0", "agents": [manifest]})
        }
        ProposalKind::WorkflowChainPack => {
            json!({"name": "pack", "version": "1", "workflows": [workflow]})
        }
        ProposalKind::PromptTemplate => {
            json!({"templateId": "t", "version": "1", "text": "Sum up {{ what }} for {{who}}, {{what}}.",
            "variables": [{"name": "what", "required": true}, {"name": "who", "defaultValue": "me"}]})
        }
        ProposalKind::Automation => {
            json!({"automationId": "a", "schedule": {"cron": "0 9 * * *", "zone": "Europe/Berlin"}, "workflowId": "w"})
        }
    }
}

/// The valid artifact of a kind with some of its fields replaced; `null` removes one.
fn with(kind: ProposalKind, more: Value) -> Map<String, Value> {
    let mut artifact = map(good(kind));
    artifact.extend(map(more));
    artifact.retain(|_, value| !value.is_null());
    artifact
}

#[test]
fn valid_artifacts_have_a_name() {
    for (kind, name) in ProposalKind::ALL
        .into_iter()
        .zip(["pack.a-1", "pack", "t", "a"])
    {
        assert_eq!(
            check(kind, &map(good(kind)), &Policy::default())
                .unwrap()
                .name(),
            name
        );
    }
    let Installable::Agents {
        agents, version, ..
    } = check(
        ProposalKind::AgentPack,
        &map(good(ProposalKind::AgentPack)),
        &Policy::default(),
    )
    .unwrap()
    else {
        panic!("agents")
    };
    assert_eq!(
        (
            agents[0].pack_name(),
            agents[0].pack_version(),
            version.as_str()
        ),
        ("pack.a-1", "0.1.0", "0.1.0")
    );
}

/// Each row gives the field at fault, and no error repeats a value of its row.
fn all_refused<const N: usize>(kind: ProposalKind, rows: [(&str, Value); N]) {
    for (n, (field, more)) in rows.into_iter().enumerate() {
        let error = check(kind, &with(kind, more), &Policy::default()).unwrap_err();
        assert_eq!(error.field(), Some(field), "row {n}: {error}");
        assert!(
            !error.to_string().to_lowercase().contains("canary"),
            "row {n}: {error}"
        );
    }
}

#[test]
fn invalid_agent_packs_are_rejected_by_field() {
    let agent = |id: &str, more: Value| {
        let mut manifest = map(
            json!({"agentId": id, "persona": "P", "modelClass": "general", "systemPrompt": "Canary"}),
        );
        manifest.extend(map(more));
        Value::Object(manifest)
    };
    let rows = [
        ("artifact", json!({"canary": 1})),
        ("name", json!({"name": "Canary"})),
        ("name", json!({"name": null})),
        ("name", json!({"name": 7})),
        ("version", json!({"version": "canary"})),
        ("version", json!({"version": null})),
        ("agents", json!({"agents": null})),
        ("agents", json!({"agents": []})),
        ("agents", json!({"agents": "canary"})),
        ("agents", json!({"agents": ["canary"]})),
        (
            "agents",
            json!({"agents": vec![agent("local.a.b", json!({})); 2]}),
        ),
        (
            "agents",
            json!({"agents": vec![agent("local.a.b", json!({})); 21]}),
        ),
        ("agentId", json!({"agents": [agent("canary", json!({}))]})),
        (
            "modelClass",
            json!({"agents": [agent("local.a.b", json!({"modelClass": "canary"}))]}),
        ),
        (
            "manifest",
            json!({"agents": [agent("local.a.b", json!({"canary": "canary"}))]}),
        ),
    ];
    all_refused(ProposalKind::AgentPack, rows);
}

#[test]
fn invalid_workflow_packs_are_rejected_by_field() {
    let node = json!({"id": "a", "typeId": "core.noop"});
    let flow = |id: &str| json!({"id": id, "nodes": [node]});
    let rows = [
        ("artifact", json!({"agents": []})),
        ("name", json!({"name": "1canary"})),
        ("workflows", json!({"workflows": []})),
        (
            "workflows",
            json!({"workflows": [flow("canary"), flow("canary")]}),
        ),
        ("id", json!({"workflows": [flow("Canary")]})),
        ("workflow", json!({"workflows": [{"id": "canary"}]})),
        (
            "nodes",
            json!({"workflows": [{"id": "w", "nodes": [node, node]}]}),
        ),
        (
            "workflows",
            json!({"workflows": [{"id": "w", "nodes": [node], "x": "canary".repeat(20_000)}]}),
        ),
    ];
    all_refused(ProposalKind::WorkflowChainPack, rows);
}

#[test]
fn invalid_templates_are_rejected_by_field() {
    let variables = |name: &str| json!([{"name": name}]);
    let rows = [
        ("artifact", json!({"canary": 1})),
        ("templateId", json!({"templateId": "a canary"})),
        ("version", json!({"version": ""})),
        ("text", json!({"text": "  "})),
        ("text", json!({"text": null})),
        ("text", json!({"text": "{{canary}}"})),
        ("text", json!({"text": "{{what}} {{canary"})),
        ("text", json!({"text": "{{what}} {{}} canary"})),
        ("text", json!({"text": "{{what}} {{{who}}} canary"})),
        ("text", json!({"text": "canary".repeat(20_000)})),
        ("variables", json!({"text": "{{what}} canary"})),
        ("variables", json!({"variables": null})),
        ("variables", json!({"variables": variables("can ary")})),
        (
            "variables",
            json!({"variables": [{"name": "what", "canary": 1}]}),
        ),
        (
            "variables",
            json!({"variables": [{"name": "what"}, {"name": "what"}]}),
        ),
        (
            "variables",
            json!({"variables": vec![json!({"name": "what"}); 65]}),
        ),
        (
            "required",
            json!({"variables": [{"name": "what", "required": "canary"}]}),
        ),
        (
            "defaultValue",
            json!({"variables": [{"name": "what", "defaultValue": ["canary"]}]}),
        ),
    ];
    all_refused(ProposalKind::PromptTemplate, rows);
}

#[test]
fn invalid_automations_are_rejected_by_field() {
    let nested = (0..30).fold(json!("canary"), |value, _| json!([value]));
    let rows = [
        ("artifact", json!({"canary": 1})),
        ("automationId", json!({"automationId": ".canary"})),
        ("schedule", json!({"schedule": null})),
        ("schedule", json!({"schedule": "canary"})),
        ("schedule", json!({"schedule": {}})),
        ("schedule", json!({"schedule": {"zone": "UTC"}})),
        (
            "schedule",
            json!({"schedule": {"every": "P1D", "cron": "0 9 * * *"}}),
        ),
        (
            "schedule",
            json!({"schedule": {"every": "P1D", "at": "2026-05-01T09:00:00Z"}}),
        ),
        (
            "schedule",
            json!({"schedule": {"every": "P1D", "canary": 1}}),
        ),
        ("every", json!({"schedule": {"every": "canary"}})),
        ("every", json!({"schedule": {"every": 5}})),
        ("cron", json!({"schedule": {"cron": "canary"}})),
        ("cron", json!({"schedule": {"cron": "0 0 31 2 *"}})),
        ("at", json!({"schedule": {"at": "canary"}})),
        ("at", json!({"schedule": {"at": "2026-05-01T09:00:00"}})),
        ("at", json!({"schedule": {"at": "1969-12-31T23:59:59Z"}})),
        (
            "zone",
            json!({"schedule": {"every": "P1D", "zone": "Canary/Island"}}),
        ),
        (
            "zone",
            json!({"schedule": {"at": "2026-05-01T09:00:00Z", "zone": "Canary/Island"}}),
        ),
        ("workflowId", json!({"workflowId": null})),
        ("workflowId", json!({"agentId": "local.canary.b"})),
        ("workflowId", json!({"workflowId": "Canary"})),
        ("agentId", json!({"workflowId": null, "agentId": "canary"})),
        ("inputs", json!({"inputs": "canary"})),
        (
            "inputs",
            json!({"inputs": {"canary": "canary".repeat(20_000)}}),
        ),
        ("enabled", json!({"enabled": "canary"})),
        ("title", json!({"title": ""})),
        ("title", json!({"title": "a\ncanary"})),
        ("title", json!({"title": "canary".repeat(40)})),
        ("title", json!({"title": nested})),
    ];
    all_refused(ProposalKind::Automation, rows);
}

#[test]
fn an_artifact_is_valid_for_its_own_kind_only() {
    for kind in ProposalKind::ALL {
        assert!(
            check(kind, &Map::new(), &Policy::default()).is_err(),
            "{kind:?}"
        );
        let mut others = ProposalKind::ALL.into_iter().filter(|other| *other != kind);
        assert!(
            others.all(|other| check(other, &map(good(kind)), &Policy::default()).is_err()),
            "{kind:?}"
        );
    }
}

#[test]
fn artifact_names_use_a_closed_alphabet() {
    for good in ["a", "a.b_c-1", &"a".repeat(128)] {
        assert!(is_name(good), "{good}");
    }
    for bad in [
        "",
        "A",
        "1a",
        "-a",
        ".a",
        "a b",
        "a/b",
        "ä",
        "a\n",
        &"a".repeat(129),
    ] {
        assert!(!is_name(bad), "{bad}");
    }
}

#[test]
fn equal_json_has_one_canonical_text() {
    let a: Value = serde_json::from_str(
        r#"{ "b": [1, {"y": null, "x": "ü\"\n"}], "a": {"d": 1.5, "c": true} }"#,
    )
    .unwrap();
    let b: Value =
        serde_json::from_str(r#"{"a":{"c":true,"d":1.5},"b":[1,{"x":"\u00fc\"\n","y":null}]}"#)
            .unwrap();
    let a = Artifact::new(&map(a)).unwrap();
    let b = Artifact::new(&map(b)).unwrap();
    assert_eq!(a, b);
    assert_eq!(
        a.text(),
        r#"{"a":{"c":true,"d":1.5},"b":[1,{"x":"ü\"\n","y":null}]}"#
    );
    let empty = Artifact::new(&Map::new()).unwrap();
    assert_eq!(
        empty.sha256(),
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
    assert!(!format!("{a:?}").contains('ü'));
}

#[test]
fn a_stored_artifact_with_a_wrong_hash_is_rejected() {
    let artifact = Artifact::new(&map(json!({"a": 1}))).unwrap();
    let stored = |text: &str, hash: &str| Artifact::from_stored(text.to_owned(), hash);
    assert_eq!(
        stored(artifact.text(), artifact.sha256()),
        Some(artifact.clone())
    );
    assert_eq!(stored(r#"{"a":2}"#, artifact.sha256()), None);
    assert_eq!(stored(artifact.text(), ""), None);
    assert_eq!(
        stored(artifact.text(), &artifact.sha256().to_uppercase()),
        None
    );
    // The right hash of a text that is no object.
    assert_eq!(
        stored(
            "",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        ),
        None
    );
    assert_eq!(
        stored(
            "[]",
            "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
        ),
        None
    );
}

#[test]
fn artifacts_are_bounded_in_size_and_depth() {
    let of =
        |bytes: usize| Artifact::new(&map(json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())})));
    assert_eq!(of(256 * 1024).unwrap().text().len(), 256 * 1024);
    assert_eq!(of(256 * 1024 + 1).unwrap_err().field(), Some("artifact"));
    let nested = |levels: usize| (1..levels).fold(json!(1), |value, _| Value::Array(vec![value]));
    let deep = |levels: usize| Artifact::new(&Map::from_iter([("a".to_owned(), nested(levels))]));
    assert!(deep(120).is_ok());
    assert_eq!(deep(121).unwrap_err().field(), Some("artifact"));
    assert!(deep(500).is_err());
}

fn template(text: &str, variables: Value) -> PromptTemplate {
    let artifact = json!({"templateId": "t", "version": "1", "text": text, "variables": variables});
    PromptTemplate::from_map(&map(artifact), &Policy::default()).unwrap()
}

#[test]
fn template_slots_are_filled() {
    let Installable::Prompt(both) = check(
        ProposalKind::PromptTemplate,
        &map(good(ProposalKind::PromptTemplate)),
        &Policy::default(),
    )
    .unwrap() else {
        panic!("a template")
    };
    let render = |values: Value| both.render(&map(values));
    assert_eq!(
        render(json!({"what": "it"})).unwrap(),
        "Sum up it for me, it."
    );
    assert_eq!(
        render(json!({"what": 4.5, "who": true})).unwrap(),
        "Sum up 4.5 for true, 4.5."
    );
    assert_eq!(
        render(json!({"what": "{{who}}", "who": null})).unwrap(),
        "Sum up {{who}} for me, {{who}}.",
        "values are only text"
    );
    for bad in [
        json!({}),
        json!({"what": null}),
        json!({"what": []}),
        json!({"what": "x", "canary": 1}),
    ] {
        let error = render(bad).unwrap_err();
        assert_eq!(error.field(), Some("variables"));
        assert!(!error.to_string().contains("canary"));
    }
    assert_eq!(
        template("No places } here }}", json!([]))
            .render(&Map::new())
            .unwrap(),
        "No places } here }}"
    );
    assert_eq!(
        template("<{{a}}>", json!([{"name": "a"}]))
            .render(&Map::new())
            .unwrap(),
        "<>"
    );
    let many = template(&"{{a}}".repeat(1_000), json!([{"name": "a"}]));
    assert_eq!(
        many.render(&map(json!({"a": "x".repeat(1_000)})))
            .unwrap_err()
            .field(),
        Some("variables")
    );
    assert!(!format!("{both:?}").contains("Sum"));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(json!(0.5))
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// JSON with the keys in the opposite order and with spaces between.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .rev()
                .map(|(key, value)| format!("{} : {}", Value::from(key.as_str()), backwards(value)))
                .collect();
            format!("{{ {} }}", fields.join(" , "))
        }
        Value::Array(items) => format!(
            "[ {} ]",
            items.iter().map(backwards).collect::<Vec<_>>().join(" , ")
        ),
        plain => plain.to_string(),
    }
}

proptest! {
    #![proptest_config(config(64, 200))]

    #[test]
    fn the_canonical_text_ignores_key_order_and_round_trips(fields in prop::collection::btree_map(any::<String>(), value(), 0..6)) {
        let artifact: Map<String, Value> = fields.into_iter().collect();
        let written = Artifact::new(&artifact).unwrap();
        prop_assert_eq!(&written.to_map(), &artifact);
        let turned: Value = serde_json::from_str(&backwards(&Value::Object(artifact))).unwrap();
        prop_assert_eq!(&Artifact::new(&map(turned)).unwrap(), &written);
        prop_assert_eq!(Artifact::from_stored(written.text().to_owned(), written.sha256()), Some(written.clone()));
        prop_assert_eq!(Artifact::new(&written.to_map()).unwrap(), written);
    }

    #[test]
    fn checking_arbitrary_artifacts_never_panics(fields in prop::collection::btree_map(any::<String>(), value(), 0..4), kind in prop::sample::select(ProposalKind::ALL.to_vec()), at in 0..4usize, wild in value()) {
        let mut artifact = map(good(kind));
        prop_assert!(check(kind, &artifact, &Policy::default()).is_ok());
        if let Some(field) = artifact.keys().nth(at).cloned() {
            artifact.insert(field, wild);
        }
        artifact.extend(fields);
        let _ = check(kind, &artifact, &Policy::default());
    }
}
