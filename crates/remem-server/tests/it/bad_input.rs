//! Bad input: the table in docs/api.md, row by row. Each kind of wrong input gets its status and
//! code, echoes nothing, and stores nothing.

use axum::body::Body;
use remem_testkit::TestServer;
use remem_testkit::server::MEMORY;
use serde_json::json;

const CANARY: &str = "canary-c4n4ry";

struct BadInputCase {
    /// The wrong input, as the table of docs/api.md describes it.
    what: &'static str,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    status: u16,
    code: &'static str,
}

fn row(
    what: &'static str,
    method: &'static str,
    path: &str,
    body: impl Into<Vec<u8>>,
    status: u16,
    code: &'static str,
) -> BadInputCase {
    BadInputCase {
        what,
        method,
        path: path.replace("{m}", &format!("{MEMORY}/m")),
        headers: vec![],
        body: body.into(),
        status,
        code,
    }
}

fn put(
    what: &'static str,
    body: impl Into<Vec<u8>>,
    status: u16,
    code: &'static str,
) -> BadInputCase {
    row(what, "POST", "{m}/entries", body, status, code)
}

fn header(mut row: BadInputCase, name: &'static str, value: impl Into<String>) -> BadInputCase {
    row.headers.push((name, value.into()));
    row
}

fn body_rows() -> Vec<BadInputCase> {
    let text = |n: usize| json!({"content": "x".repeat(n)}).to_string();
    let tags = |tags: Vec<String>| json!({"content": "x", "tags": tags}).to_string();
    let deep = |n: usize| {
        format!(
            "{{\"content\":\"x\",\"metadata\":{{\"a\":{}1{}}}}}",
            "[".repeat(n),
            "]".repeat(n)
        )
    };
    vec![
        put("empty body", "", 400, "validation_error"),
        put("not JSON", format!("{CANARY}{{"), 400, "validation_error"),
        put(
            "not UTF-8",
            b"{\"content\": \"\xff\xfe\"}".to_vec(),
            400,
            "validation_error",
        ),
        put("JSON cut off", "{\"content\": \"x", 400, "validation_error"),
        put(
            "lone surrogate",
            "{\"content\": \"\\ud800\"}",
            400,
            "validation_error",
        ),
        put("NaN", "{\"content\": NaN}", 400, "validation_error"),
        put(
            "an array where an object is needed",
            "[]",
            400,
            "validation_error",
        ),
        put(
            "nesting deeper than 127",
            format!(
                "{{\"content\":\"x\",\"metadata\":{{\"a\":{}",
                "[".repeat(10_000)
            ),
            400,
            "validation_error",
        ),
        put(
            "unknown field",
            format!("{{\"content\": \"x\", \"{CANARY}\": 1}}"),
            400,
            "validation_error",
        ),
        put(
            "repeated field",
            "{\"content\": \"x\", \"content\": \"y\"}",
            400,
            "validation_error",
        ),
        put("missing content", "{}", 400, "validation_error"),
        put(
            "content of the wrong type",
            format!("{{\"content\": {{\"{CANARY}\": 1}}}}"),
            400,
            "validation_error",
        ),
        put(
            "expiresAt that is no instant",
            format!("{{\"content\": \"x\", \"expiresAt\": \"{CANARY}\"}}"),
            400,
            "validation_error",
        ),
        put(
            "metadata that is no object",
            "{\"content\": \"x\", \"metadata\": [1]}",
            400,
            "validation_error",
        ),
        put("empty content", text(0), 422, "validation_error"),
        put(
            "content of white space alone",
            "{\"content\": \" \\t\\r\\n\\u00a0\\u3000\"}",
            422,
            "validation_error",
        ),
        put(
            "content over 65,536 bytes",
            text(65_537),
            422,
            "validation_error",
        ),
        put(
            "more than 64 tags",
            tags(vec!["t".into(); 65]),
            422,
            "validation_error",
        ),
        put(
            "tag over 256 characters",
            tags(vec!["é".repeat(257)]),
            422,
            "validation_error",
        ),
        put(
            "control character in a tag",
            tags(vec!["a\u{7}".into()]),
            422,
            "validation_error",
        ),
        put(
            "metadata over 16,384 bytes",
            json!({"content": "x", "metadata": {"a": "x".repeat(16_384)}}).to_string(),
            422,
            "validation_error",
        ),
        put(
            "metadata deeper than 8 levels",
            deep(8),
            422,
            "validation_error",
        ),
        put(
            "expiresAt in the past",
            "{\"content\": \"x\", \"expiresAt\": 1}",
            422,
            "validation_error",
        ),
        put(
            "body over 8 MiB",
            text(8 * 1024 * 1024),
            413,
            "payload_too_large",
        ),
        header(
            put(
                "body that is not JSON by its type",
                "<x/>",
                415,
                "unsupported_media_type",
            ),
            "content-type",
            "application/xml",
        ),
        header(
            put("empty Idempotency-Key", text(1), 422, "validation_error"),
            "idempotency-key",
            "",
        ),
        header(
            put(
                "Idempotency-Key over 255 characters",
                text(1),
                422,
                "validation_error",
            ),
            "idempotency-key",
            "k".repeat(256),
        ),
    ]
}

fn operation_rows() -> Vec<BadInputCase> {
    vec![
        row(
            "empty batch",
            "POST",
            "{m}/entries:batch",
            "{\"entries\": []}",
            422,
            "validation_error",
        ),
        row(
            "batch over 1,000 entries",
            "POST",
            "{m}/entries:batch",
            json!({"entries": vec![json!({"content": "x"}); 1_001]}).to_string(),
            422,
            "validation_error",
        ),
        row(
            "import without an id",
            "POST",
            "{m}/entries:import",
            "{\"entries\": [{\"content\": \"x\"}]}",
            400,
            "validation_error",
        ),
        row(
            "import with a malformed id",
            "POST",
            "{m}/entries:import",
            "{\"entries\": [{\"content\": \"x\", \"id\": \"\"}]}",
            422,
            "validation_error",
        ),
        row(
            "empty query",
            "POST",
            "{m}/search",
            "{\"query\": \"  \"}",
            422,
            "validation_error",
        ),
        row(
            "query over 4,096 characters",
            "POST",
            "{m}/search",
            json!({"query": "x".repeat(4_097)}).to_string(),
            422,
            "validation_error",
        ),
        row(
            "search mode that this host lacks",
            "POST",
            "{m}/search",
            "{\"query\": \"x\", \"mode\": \"semantic\"}",
            422,
            "capability_not_provided",
        ),
        row(
            "search mode that does not exist",
            "POST",
            "{m}/search",
            format!("{{\"query\": \"x\", \"mode\": \"{CANARY}\"}}"),
            422,
            "validation_error",
        ),
    ]
}

fn recall_rows() -> Vec<BadInputCase> {
    let search = |what, body: serde_json::Value, status| {
        row(
            what,
            "POST",
            "{m}/search",
            body.to_string(),
            status,
            "validation_error",
        )
    };
    let recall = |what, body: serde_json::Value, status, code| {
        row(what, "POST", "{m}/recall", body.to_string(), status, code)
    };
    let list = |what, query: &str, code| {
        row(
            what,
            "GET",
            &format!("{{m}}/entries?{query}"),
            "",
            422,
            code,
        )
    };
    vec![
        search(
            "search with an unknown use of time",
            json!({"query": "x", "time": CANARY}),
            422,
        ),
        search(
            "search with more than 10 neighbours",
            json!({"query": "x", "neighbours": 11}),
            422,
        ),
        search(
            "search with no hits of a source",
            json!({"query": "x", "perSource": 0}),
            422,
        ),
        search(
            "search that explains something else",
            json!({"query": "x", "explain": CANARY}),
            400,
        ),
        recall(
            "recall of nothing",
            json!({"query": " "}),
            422,
            "validation_error",
        ),
        recall(
            "recall without a query",
            json!({"tokenBudget": 9}),
            400,
            "validation_error",
        ),
        recall(
            "recall with an unknown field",
            json!({"query": "x", CANARY: 1}),
            400,
            "validation_error",
        ),
        recall(
            "recall within no tokens",
            json!({"query": "x", "tokenBudget": 0}),
            422,
            "validation_error",
        ),
        recall(
            "recall with a budget over 1,000,000 tokens",
            json!({"query": "x", "tokenBudget": 1_000_001}),
            422,
            "validation_error",
        ),
        recall(
            "recall by a mode that this host lacks",
            json!({"query": "x", "mode": "semantic"}),
            422,
            "capability_not_provided",
        ),
        list("list within no tokens", "tokenBudget=0", "validation_error"),
        list(
            "list within more than 1,000,000 tokens",
            "tokenBudget=1000001",
            "validation_error",
        ),
        list(
            "list by an unknown rank",
            "tokenBudget=9&rank=canary-c4n4ry",
            "validation_error",
        ),
        list(
            "rank without a tokenBudget",
            "rank=recency",
            "validation_error",
        ),
        list(
            "query of a list without a tokenBudget",
            "query=canary-c4n4ry",
            "validation_error",
        ),
        list(
            "query of a list by recency",
            "tokenBudget=9&query=canary-c4n4ry",
            "validation_error",
        ),
        list(
            "list by relevance without a query",
            "tokenBudget=9&rank=relevance",
            "validation_error",
        ),
        list(
            "list by relevance that this host lacks",
            "tokenBudget=9&rank=relevance&query=canary-c4n4ry",
            "capability_not_provided",
        ),
        list(
            "cursor of a list within a budget",
            "tokenBudget=9&cursor=canary-c4n4ry",
            "validation_error",
        ),
    ]
}

fn forget_rows() -> Vec<BadInputCase> {
    let subjects =
        |subjects: Vec<String>| json!({"content": "x", "subjects": subjects}).to_string();
    let many = (0..33).map(|n| format!("{CANARY}{n}")).collect();
    let import = json!({"entries": [{"id": "i", "content": "x", "subjects": [CANARY.repeat(20)]}]})
        .to_string();
    let forget = |what: &'static str, body: serde_json::Value, status: u16| {
        row(
            what,
            "POST",
            "/v1/host/remembrancer/forget",
            body.to_string(),
            status,
            "validation_error",
        )
    };
    vec![
        put(
            "more than 32 subjects",
            subjects(many),
            422,
            "validation_error",
        ),
        put(
            "subject over 256 characters",
            subjects(vec!["é".repeat(257)]),
            422,
            "validation_error",
        ),
        put(
            "empty subject",
            subjects(vec![" ".into()]),
            422,
            "validation_error",
        ),
        row(
            "import with a subject over 256 characters",
            "POST",
            "{m}/entries:import",
            import,
            422,
            "validation_error",
        ),
        forget("forget without a subject", json!({}), 400),
        forget("forget of an empty subject", json!({"subject": " "}), 422),
        forget(
            "forget of a subject over 256 characters",
            json!({"subject": CANARY.repeat(20)}),
            422,
        ),
        forget(
            "forget with an unknown field",
            json!({"subject": "x", CANARY: 1}),
            400,
        ),
        row(
            "unknown erasure report",
            "GET",
            "/v1/host/remembrancer/erasures/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "page of a report that has no pages",
            "GET",
            "/v1/host/remembrancer/erasures/canary-c4n4ry/pages/1",
            "",
            404,
            "not_found",
        ),
        row(
            "lineage of an unknown entry",
            "GET",
            "{m}/entries/canary-c4n4ry/lineage",
            "",
            404,
            "not_found",
        ),
        row(
            "archives of a malformed memoryRef",
            "GET",
            &format!("{MEMORY}/..%2Fx/archives"),
            "",
            200,
            "",
        ),
        row(
            "unknown archive",
            "GET",
            "{m}/archives/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "undo of an unknown model call",
            "POST",
            "/v1/host/remembrancer/model-calls/canary-c4n4ry/undo",
            "",
            404,
            "not_found",
        ),
    ]
}

fn secret_rows() -> Vec<BadInputCase> {
    let secret = |name: &str| format!("/v1/host/remembrancer/secrets/{name}");
    let body = |value: &str| json!({"value": value}).to_string();
    vec![
        row(
            "secret with a malformed name",
            "PUT",
            &secret(&format!("{CANARY}%20x")),
            body("12345678"),
            422,
            "validation_error",
        ),
        row(
            "secret under 8 characters",
            "PUT",
            &secret("s"),
            body("canary7"),
            422,
            "validation_error",
        ),
        row(
            "secret over 8,192 characters",
            "PUT",
            &secret("s"),
            body(&CANARY.repeat(700)),
            422,
            "validation_error",
        ),
        row(
            "rotation of an unknown secret",
            "POST",
            &secret("s/rotate"),
            body(&CANARY.repeat(2)),
            404,
            "not_found",
        ),
    ]
}

fn path_rows() -> Vec<BadInputCase> {
    let entries = |name: &str| format!("{MEMORY}/{name}/entries");
    let one = "{\"content\": \"x\"}";
    vec![
        row(
            "write to a memoryRef that climbs",
            "POST",
            &entries("..%2Fcanary-c4n4ry"),
            one,
            422,
            "validation_error",
        ),
        row(
            "write to a memoryRef with NUL",
            "POST",
            &entries("a%00b"),
            one,
            422,
            "validation_error",
        ),
        row(
            "write to a memoryRef over 256 characters",
            "POST",
            &entries(&"x".repeat(257)),
            one,
            422,
            "validation_error",
        ),
        row(
            "write to a memoryRef that is not UTF-8",
            "POST",
            &entries("%ff%fe"),
            one,
            422,
            "validation_error",
        ),
        row(
            "read of a malformed memoryRef",
            "GET",
            &entries("..%2F..%2Fcanary-c4n4ry"),
            "",
            200,
            "",
        ),
        row(
            "entry of a malformed memoryRef",
            "GET",
            &format!("{}/x", entries("%252e%252e")),
            "",
            404,
            "not_found",
        ),
        row(
            "unknown entry",
            "GET",
            "{m}/entries/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "delete of an unknown entry",
            "DELETE",
            "{m}/entries/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "unknown query parameter",
            "GET",
            "{m}/entries?canary-c4n4ry=1",
            "",
            400,
            "validation_error",
        ),
        row(
            "limit that is no number",
            "GET",
            "{m}/entries?limit=canary-c4n4ry",
            "",
            400,
            "validation_error",
        ),
        row(
            "negative limit",
            "GET",
            "{m}/entries?limit=-1",
            "",
            400,
            "validation_error",
        ),
        row(
            "number that its type cannot hold",
            "GET",
            "{m}/entries?tokenBudget=9223372036854775808",
            "",
            400,
            "validation_error",
        ),
        row(
            "atLeast beyond the largest number",
            "GET",
            "{m}/entries?atLeast=9223372036854775808",
            "",
            400,
            "validation_error",
        ),
        row(
            "position beyond the largest number",
            "GET",
            "/v1/host/remembrancer/events?after=9223372036854775808",
            "",
            400,
            "validation_error",
        ),
        row(
            "cursor that this list did not give",
            "GET",
            "{m}/entries?cursor=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        row(
            "atLeast that is no token",
            "GET",
            "{m}/entries?atLeast=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        row(
            "include of something else",
            "GET",
            "{m}/entries?include=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        row(
            "position that is no number",
            "GET",
            "/v1/host/remembrancer/events?after=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        row(
            "model calls after something that is no call",
            "GET",
            "/v1/host/remembrancer/model-calls?after=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        row(
            "unknown path",
            "GET",
            "/v1/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "method that a path does not take",
            "PUT",
            "{m}/entries",
            "",
            405,
            "method_not_allowed",
        ),
        row(
            "unknown pass",
            "POST",
            "/v1/host/remembrancer/passes/canary-c4n4ry/run",
            "{}",
            404,
            "not_found",
        ),
        row(
            "key with an unknown scope",
            "POST",
            "/v1/host/remembrancer/keys",
            format!("{{\"scopes\": [\"{CANARY}\"]}}"),
            422,
            "validation_error",
        ),
        row(
            "key without a scope",
            "POST",
            "/v1/host/remembrancer/keys",
            "{\"scopes\": []}",
            422,
            "validation_error",
        ),
        row(
            "key for a malformed principal",
            "POST",
            "/v1/host/remembrancer/keys",
            format!("{{\"scopes\": [\"memory:read\"], \"principal\": \"{CANARY} \"}}"),
            422,
            "validation_error",
        ),
        row(
            "key for a name that the host acts under",
            "POST",
            "/v1/host/remembrancer/keys",
            "{\"scopes\": [\"memory:read\"], \"principal\": \"local\"}",
            422,
            "validation_error",
        ),
        row(
            "key that vouches for an unknown source",
            "POST",
            "/v1/host/remembrancer/keys",
            format!("{{\"scopes\": [\"memory:read\"], \"trust\": \"{CANARY}\"}}"),
            400,
            "validation_error",
        ),
        row(
            "trust of an unknown key",
            "PATCH",
            "/v1/host/remembrancer/keys/key_1",
            "{\"trust\": \"model\"}",
            404,
            "not_found",
        ),
        row(
            "malformed tenant",
            "POST",
            "/v1/host/remembrancer/tenants",
            format!("{{\"id\": \"../{CANARY}\"}}"),
            422,
            "validation_error",
        ),
        row(
            "unknown shape policy",
            "POST",
            "/v1/host/remembrancer/tenants",
            format!("{{\"id\": \"t\", \"shapes\": \"{CANARY}\"}}"),
            422,
            "validation_error",
        ),
    ]
}

fn pass_rows() -> Vec<BadInputCase> {
    let run = |what, pass: &str, body: &str, status| {
        row(
            what,
            "POST",
            &format!("/v1/host/remembrancer/passes/{pass}/run"),
            body,
            status,
            "validation_error",
        )
    };
    let at =
        |pass: &str, query: &str| format!("/v1/host/remembrancer/passes/{pass}/schedule{query}");
    let set = |what, body: &str, status| {
        row(
            what,
            "PUT",
            &at("compact", "?memoryRef=m"),
            body,
            status,
            "validation_error",
        )
    };
    let jobs = "/v1/host/remembrancer/jobs";
    vec![
        run(
            "run of a pass with an unknown field",
            "compact",
            r#"{"canary-c4n4ry": 1}"#,
            400,
        ),
        run(
            "run of a pass with an unknown option",
            "compact",
            r#"{"memoryRef": "m", "options": {"canary-c4n4ry": 1}}"#,
            422,
        ),
        run(
            "run of a pass with an option of the wrong type",
            "compact",
            r#"{"memoryRef": "m", "options": {"include": "canary-c4n4ry"}}"#,
            422,
        ),
        run(
            "run of a pass over a malformed memoryRef",
            "compact",
            r#"{"memoryRef": "../canary-c4n4ry"}"#,
            422,
        ),
        run(
            "run of a pass over the host with a memoryRef",
            "purge",
            r#"{"memoryRef": "canary-c4n4ry"}"#,
            422,
        ),
        run("run of the pass that forgets", "forget", "{}", 422),
        run(
            "run of a pass over memories with compact",
            "compact",
            r#"{"memoryRef": "m", "compact": true}"#,
            422,
        ),
        row(
            "unknown job",
            "GET",
            &format!("{jobs}/canary-c4n4ry"),
            "",
            404,
            "not_found",
        ),
        row(
            "cancel of an unknown job",
            "POST",
            &format!("{jobs}/canary-c4n4ry/cancel"),
            "",
            404,
            "not_found",
        ),
        row(
            "jobs in an unknown state",
            "GET",
            &format!("{jobs}?state=canary-c4n4ry"),
            "",
            422,
            "validation_error",
        ),
        row(
            "jobs after something else",
            "GET",
            &format!("{jobs}?after=canary-c4n4ry"),
            "",
            422,
            "validation_error",
        ),
        row(
            "jobs with an unknown query parameter",
            "GET",
            &format!("{jobs}?canary-c4n4ry=1"),
            "",
            400,
            "validation_error",
        ),
        row(
            "schedule of an unknown pass",
            "PUT",
            &at("canary-c4n4ry", ""),
            r#"{"every": "P1D"}"#,
            404,
            "not_found",
        ),
        row(
            "schedule of a pass over the host",
            "PUT",
            &at("purge", ""),
            r#"{"every": "P1D"}"#,
            404,
            "not_found",
        ),
        row(
            "unknown schedule",
            "GET",
            &at("compact", "?memoryRef=canary-c4n4ry"),
            "",
            404,
            "not_found",
        ),
        row(
            "removal of an unknown schedule",
            "DELETE",
            &at("compact", "?memoryRef=canary-c4n4ry"),
            "",
            404,
            "not_found",
        ),
        set("schedule without every and cron", "{}", 422),
        set(
            "schedule with a malformed duration",
            r#"{"every": "canary-c4n4ry"}"#,
            422,
        ),
        set(
            "schedule of less than a minute",
            r#"{"every": "PT59S"}"#,
            422,
        ),
        set(
            "schedule with a malformed cron line",
            r#"{"cron": "canary-c4n4ry * * * *"}"#,
            422,
        ),
        set(
            "schedule in an unknown time zone",
            r#"{"every": "P1D", "zone": "canary-c4n4ry"}"#,
            422,
        ),
        set(
            "schedule with an unknown option",
            r#"{"every": "P1D", "options": {"canary-c4n4ry": 1}}"#,
            422,
        ),
        row(
            "schedule over a malformed memoryRef",
            "PUT",
            &at("compact", "?memoryRef=..%2Fcanary-c4n4ry"),
            r#"{"every": "P1D"}"#,
            422,
            "validation_error",
        ),
        set(
            "schedule with an unknown field",
            r#"{"every": "P1D", "canary-c4n4ry": 1}"#,
            400,
        ),
    ]
}

fn commitment_rows() -> Vec<BadInputCase> {
    let base = "/v1/host/remembrancer";
    let create = |what, body: serde_json::Value, status, code| {
        row(
            what,
            "POST",
            "{m}/commitments",
            body.to_string(),
            status,
            code,
        )
    };
    let wrong = |what, body: serde_json::Value| create(what, body, 422, "validation_error");
    let rules = |what, body: serde_json::Value, status| {
        row(
            what,
            "PUT",
            "{m}/commitment-rules",
            body.to_string(),
            status,
            "validation_error",
        )
    };
    let beat = |what, name: &str, change: serde_json::Value, status| {
        let mut body =
            json!({"memoryRef": "m", "key": "invoice cleared", "tag": "paid", "everySeconds": 60});
        body.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        row(
            what,
            "PUT",
            &format!("{base}/heartbeats/{name}"),
            body.to_string(),
            status,
            "validation_error",
        )
    };
    let of = |what, method, rest: &str, body: &str, status, code| {
        row(
            what,
            method,
            &format!("{base}/commitments{rest}"),
            body,
            status,
            code,
        )
    };
    vec![
        create(
            "commitment without a text",
            json!({"at": 1}),
            400,
            "validation_error",
        ),
        create(
            "commitment with an unknown field",
            json!({"text": "x", CANARY: 1}),
            400,
            "validation_error",
        ),
        create(
            "commitment at something that is no instant",
            json!({"text": "x", "at": CANARY}),
            400,
            "validation_error",
        ),
        wrong(
            "commitment that does not tell when",
            json!({"text": CANARY}),
        ),
        wrong("commitment in the past", json!({"text": "x", "at": 1})),
        wrong(
            "commitment at a time and with a predicate",
            json!({"text": "x", "at": 1_800_000_000_000_u64, "predicate": CANARY}),
        ),
        create(
            "commitment too far ahead",
            json!({"text": "x", "at": 1_900_000_000_000_u64}),
            422,
            "schedule_horizon_exceeded",
        ),
        wrong(
            "commitment with a malformed cron line",
            json!({"text": "x", "cron": CANARY}),
        ),
        wrong(
            "commitment in an unknown time zone",
            json!({"text": "x", "cron": "0 9 * * *", "zone": CANARY}),
        ),
        wrong(
            "commitment with a predicate that states nothing",
            json!({"text": "x", "predicate": "..."}),
        ),
        wrong(
            "commitment that starts both a workflow and an agent",
            json!({"text": "x", "at": 1_700_000_001_000_u64, "delivery": {"workflowId": CANARY, "agentId": CANARY}}),
        ),
        create(
            "commitment that starts an unknown workflow",
            json!({"text": "x", "at": 1_700_000_001_000_u64, "delivery": {"workflowId": CANARY}}),
            404,
            "workflow_not_found",
        ),
        of(
            "unknown commitment",
            "GET",
            "/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        of(
            "explanation of an unknown commitment",
            "GET",
            "/canary-c4n4ry/explain",
            "",
            404,
            "not_found",
        ),
        of(
            "fires of an unknown commitment",
            "GET",
            "/canary-c4n4ry/fires",
            "",
            404,
            "not_found",
        ),
        of(
            "confirmation of an unknown commitment",
            "POST",
            "/canary-c4n4ry/confirm",
            "",
            404,
            "not_found",
        ),
        of(
            "cancel of an unknown commitment",
            "POST",
            "/canary-c4n4ry/cancel",
            "",
            404,
            "not_found",
        ),
        of(
            "snooze of an unknown commitment",
            "POST",
            "/canary-c4n4ry/snooze",
            r#"{"until": 1800000000000}"#,
            404,
            "not_found",
        ),
        of(
            "snooze to something that is no instant",
            "POST",
            "/c/snooze",
            r#"{"until": "canary-c4n4ry"}"#,
            400,
            "validation_error",
        ),
        of(
            "commitments in an unknown state",
            "GET",
            "?state=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        of(
            "commitments after something else",
            "GET",
            "?cursor=canary-c4n4ry",
            "",
            422,
            "validation_error",
        ),
        of(
            "commitments with an unknown query parameter",
            "GET",
            "?canary-c4n4ry=1",
            "",
            400,
            "validation_error",
        ),
        row(
            "observation of nothing",
            "POST",
            "{m}/observations",
            r#"{"key": "...", "value": true}"#,
            422,
            "validation_error",
        ),
        row(
            "observation that does not say whether",
            "POST",
            "{m}/observations",
            r#"{"key": "canary-c4n4ry"}"#,
            400,
            "validation_error",
        ),
        rules(
            "commitment rules with an unknown arm",
            json!({"arm": CANARY}),
            422,
        ),
        rules(
            "commitment rules in an unknown time zone",
            json!({"zone": CANARY}),
            422,
        ),
        rules(
            "commitment rules with an unknown field",
            json!({CANARY: 1}),
            400,
        ),
        beat(
            "heartbeat with a malformed name",
            "Canary-c4n4ry",
            json!({}),
            422,
        ),
        beat("heartbeat without a tag", "h", json!({"tag": ""}), 422),
        beat("heartbeat about nothing", "h", json!({"key": "..."}), 422),
        beat(
            "heartbeat with an unknown field",
            "h",
            json!({CANARY: 1}),
            400,
        ),
        row(
            "unknown heartbeat",
            "GET",
            &format!("{base}/heartbeats/canary-c4n4ry"),
            "",
            404,
            "not_found",
        ),
        row(
            "removal of an unknown heartbeat",
            "DELETE",
            &format!("{base}/heartbeats/canary-c4n4ry"),
            "",
            404,
            "not_found",
        ),
    ]
}

fn workshop_rows() -> Vec<BadInputCase> {
    let base = "/v1/host/remembrancer";
    let wrong = |what, body: serde_json::Value, status| {
        put(what, body.to_string(), status, "validation_error")
    };
    let list = |what, query: &str, status| {
        row(
            what,
            "GET",
            &format!("{{m}}/entries?{query}"),
            "",
            status,
            "validation_error",
        )
    };
    let link = |what, id: &str, body: serde_json::Value, status, code| {
        row(
            what,
            "POST",
            &format!("{{m}}/entries/{id}/links"),
            body.to_string(),
            status,
            code,
        )
    };
    let rules = |what, world: &str, body: serde_json::Value, status| {
        row(
            what,
            "POST",
            &format!("{base}/worlds/{world}/rules"),
            body.to_string(),
            status,
            "validation_error",
        )
    };
    let many: Vec<_> = (0..1_001)
        .map(|n| json!({"id": format!("r{n}"), "body": "x"}))
        .collect();
    let session = r#"{"entries": [{"id": "i", "content": "x", "tier": "session"}]}"#;
    vec![
        wrong("unknown tier", json!({"content": "x", "tier": CANARY}), 400),
        wrong(
            "unknown typology",
            json!({"content": "x", "typology": CANARY}),
            400,
        ),
        wrong(
            "unknown source",
            json!({"content": "x", "source": format!("expected one of {CANARY}")}),
            400,
        ),
        wrong(
            "validFrom that is no instant",
            json!({"content": "x", "validFrom": CANARY}),
            400,
        ),
        wrong(
            "validTo before validFrom",
            json!({"content": "x", "validFrom": 2_000, "validTo": 1_000}),
            422,
        ),
        wrong(
            "window of what is no statement",
            json!({"content": "x", "typology": "procedural", "validFrom": 2_000}),
            422,
        ),
        wrong(
            "episode for good",
            json!({"content": "x", "tier": "persistent", "typology": "episodic"}),
            422,
        ),
        wrong(
            "interaction that does not fit the tier",
            json!({"content": "x", "tier": "persistent", "interaction": "t"}),
            422,
        ),
        wrong(
            "malformed interaction",
            json!({"content": "x", "interaction": format!("{CANARY}\u{7}")}),
            422,
        ),
        wrong(
            "malformed world",
            json!({"content": "x", "world": format!("{CANARY} {CANARY}")}),
            422,
        ),
        wrong("empty slot", json!({"content": "x", "slot": " "}), 422),
        wrong(
            "slot that is named like one of the host's",
            json!({"content": "x", "slot": format!("={CANARY}")}),
            422,
        ),
        wrong(
            "empty sourceRef",
            json!({"content": "x", "sourceRef": ""}),
            422,
        ),
        wrong(
            "sourceRef over 249 characters",
            json!({"content": "x", "sourceRef": CANARY.repeat(20)}),
            422,
        ),
        row(
            "import of what is not for good",
            "POST",
            "{m}/entries:import",
            session,
            422,
            "validation_error",
        ),
        list("list of an unknown tier", "tier=canary-c4n4ry", 400),
        list(
            "list as of something that is no instant",
            "asOf=canary-c4n4ry",
            400,
        ),
        list(
            "list of a malformed session",
            "session=canary-c4n4ry%20x",
            422,
        ),
        row(
            "search of an unknown typology",
            "POST",
            "{m}/search",
            r#"{"query": "x", "typology": "canary-c4n4ry"}"#,
            400,
            "validation_error",
        ),
        row(
            "put with an include of something else",
            "POST",
            "{m}/entries?include=canary-c4n4ry",
            r#"{"content": "x"}"#,
            422,
            "validation_error",
        ),
        row(
            "history of an unknown slot",
            "GET",
            "{m}/slots/canary-c4n4ry",
            "",
            200,
            "",
        ),
        row(
            "retraction of an unknown slot",
            "DELETE",
            "{m}/slots/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "close of a session that is not open",
            "POST",
            "{m}/sessions/close",
            "",
            404,
            "not_found",
        ),
        row(
            "close of a malformed interaction",
            "POST",
            "{m}/interactions/canary-c4n4ry%07/close",
            "",
            422,
            "validation_error",
        ),
        link(
            "link of an unknown entry",
            "canary-c4n4ry",
            json!({"action": "a", "reference": "r"}),
            404,
            "not_found",
        ),
        link(
            "link without a reference",
            "x",
            json!({"action": CANARY}),
            400,
            "validation_error",
        ),
        link(
            "link of an empty action",
            "x",
            json!({"action": " ", "reference": "r"}),
            422,
            "validation_error",
        ),
        row(
            "audit of an unknown entry",
            "GET",
            "{m}/entries/canary-c4n4ry/audit",
            "",
            404,
            "not_found",
        ),
        row(
            "retention of a malformed memoryRef",
            "GET",
            &format!("{base}/retention?memoryRef=..%2Fcanary-c4n4ry"),
            "",
            200,
            "",
        ),
        rules(
            "rules of a malformed world",
            "canary-c4n4ry%20x",
            json!({"rules": [{"id": "r", "body": "x"}]}),
            422,
        ),
        rules(
            "rules of the world without rules",
            "-",
            json!({"rules": [{"id": "r", "body": "x"}]}),
            422,
        ),
        rules("no rules", "w", json!({"rules": []}), 422),
        rules("more than 1,000 rules", "w", json!({"rules": many}), 422),
        rules(
            "rule with a malformed name",
            "w",
            json!({"rules": [{"id": format!("{CANARY} x"), "body": "x"}]}),
            422,
        ),
        rules(
            "rule with an unknown field",
            "w",
            json!({"rules": [{"id": "r", "body": "x", CANARY: 1}]}),
            400,
        ),
        row(
            "empty rule",
            "PUT",
            &format!("{base}/worlds/w/rules/r"),
            r#"{"body": ""}"#,
            422,
            "validation_error",
        ),
        row(
            "removal of an unknown rule",
            "DELETE",
            &format!("{base}/worlds/w/rules/canary-c4n4ry"),
            "",
            404,
            "not_found",
        ),
    ]
}

fn agent_rows() -> Vec<BadInputCase> {
    let install = |what: &'static str,
                   manifest: serde_json::Value,
                   peers: serde_json::Value,
                   status: u16,
                   code: &'static str| {
        let body = json!({"manifest": manifest, "peerDependencies": peers}).to_string();
        row(
            what,
            "POST",
            "/v1/host/remembrancer/agents",
            body,
            status,
            code,
        )
    };
    let good = json!({"agentId": "local.a.b", "persona": "P", "modelClass": "general", "systemPrompt": "x"});
    let with = |name: &str, value: serde_json::Value| {
        let mut manifest = good.clone();
        manifest[name] = value;
        manifest
    };
    vec![
        install(
            "agent with a malformed agentId",
            with("agentId", json!(CANARY)),
            json!({}),
            422,
            "validation_error",
        ),
        install(
            "agent with an unknown field",
            with(CANARY, json!(1)),
            json!({}),
            422,
            "validation_error",
        ),
        install(
            "agent with two prompts",
            with("systemPromptRef", json!(CANARY)),
            json!({}),
            422,
            "validation_error",
        ),
        install(
            "agent without a peer it needs",
            good.clone(),
            json!({CANARY: {}}),
            422,
            "pack_peer_dependency_missing",
        ),
        row(
            "unknown agent",
            "GET",
            "/v1/agents/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "removal of an unknown agent",
            "DELETE",
            "/v1/host/remembrancer/agents/local.canary-c4n4ry.x",
            "",
            404,
            "not_found",
        ),
    ]
}

fn run_rows() -> Vec<BadInputCase> {
    let run = |body: serde_json::Value| body.to_string();
    let workflow = |nodes: serde_json::Value| json!({"id": "w", "nodes": nodes}).to_string();
    let put = |what: &'static str, nodes: serde_json::Value| {
        row(
            what,
            "PUT",
            "/v1/host/remembrancer/workflows/w",
            workflow(nodes),
            422,
            "validation_error",
        )
    };
    vec![
        row(
            "run of an unknown workflow",
            "POST",
            "/v1/runs",
            run(json!({"workflowId": CANARY})),
            404,
            "workflow_not_found",
        ),
        row(
            "run of nothing",
            "POST",
            "/v1/runs",
            run(json!({})),
            400,
            "validation_error",
        ),
        row(
            "run with a callback",
            "POST",
            "/v1/runs",
            run(json!({"workflowId": "w", "callbackUrl": CANARY})),
            422,
            "capability_not_provided",
        ),
        row(
            "unknown run",
            "GET",
            "/v1/runs/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
        row(
            "fork of an unknown run",
            "POST",
            "/v1/runs/canary-c4n4ry:fork",
            run(json!({"mode": "replay"})),
            404,
            "not_found",
        ),
        row(
            "branch without a point",
            "POST",
            "/v1/runs/canary-c4n4ry:fork",
            run(json!({"mode": "branch"})),
            400,
            "validation_error",
        ),
        row(
            "cancel of an unknown run",
            "POST",
            "/v1/runs/canary-c4n4ry/cancel",
            "",
            404,
            "not_found",
        ),
        put("workflow without nodes", json!([])),
        put(
            "workflow with a malformed node type",
            json!([{"id": "n", "typeId": "Canary c4n4ry"}]),
        ),
        row(
            "removal of an unknown workflow",
            "DELETE",
            "/v1/host/remembrancer/workflows/canary-c4n4ry",
            "",
            404,
            "not_found",
        ),
    ]
}

fn proposal_rows() -> Vec<BadInputCase> {
    let sample = "/v1/host/remembrancer/proposals";
    let own = "/v1/host/remembrancer";
    let submit = |what: &'static str, body: serde_json::Value, status: u16| {
        row(
            what,
            "POST",
            &format!("{own}/proposals"),
            body.to_string(),
            status,
            "validation_error",
        )
    };
    let automation = |what: &'static str, id: &str, body: serde_json::Value, status: u16| {
        row(
            what,
            "PUT",
            &format!("{own}/automations/{id}"),
            body.to_string(),
            status,
            "validation_error",
        )
    };
    let known = format!("{sample}/{CANARY}");
    vec![
        submit(
            "proposal of an unknown kind",
            json!({"kind": CANARY, "artifact": {}}),
            422,
        ),
        submit(
            "proposal without an artifact",
            json!({"kind": "automation"}),
            400,
        ),
        submit(
            "proposal whose artifact is no object",
            json!({"kind": "automation", "artifact": [CANARY]}),
            400,
        ),
        submit(
            "proposal with an unknown field",
            json!({"kind": "automation", "artifact": {}, CANARY: 1}),
            400,
        ),
        submit(
            "proposal with an artifact over 262,144 bytes",
            json!({"kind": "automation", "artifact": {"a": "x".repeat(262_144)}}),
            422,
        ),
        submit(
            "proposal with a title over 200 characters",
            json!({"kind": "automation", "artifact": {}, "title": CANARY.repeat(20)}),
            422,
        ),
        submit(
            "proposal of a run that cannot be",
            json!({"kind": "automation", "artifact": {}, "sourceRunIds": [""]}),
            422,
        ),
        row(
            "proposals in an unknown state",
            "GET",
            &format!("{sample}?state={CANARY}"),
            "",
            422,
            "validation_error",
        ),
        row(
            "proposals after something that is no proposal",
            "GET",
            &format!("{sample}?cursor={CANARY}"),
            "",
            422,
            "validation_error",
        ),
        row("unknown proposal", "GET", &known, "", 404, "not_found"),
        row(
            "apply of an unknown proposal",
            "POST",
            &format!("{known}/apply"),
            "{}",
            404,
            "not_found",
        ),
        row(
            "apply with an unknown field",
            "POST",
            &format!("{known}/apply"),
            format!("{{\"{CANARY}\": 1}}"),
            400,
            "validation_error",
        ),
        row(
            "revision of an unknown proposal",
            "PATCH",
            &known,
            r#"{"title": "x"}"#,
            404,
            "not_found",
        ),
        row(
            "revision that changes nothing",
            "PATCH",
            &known,
            "{}",
            422,
            "validation_error",
        ),
        row(
            "unknown automation",
            "GET",
            &format!("{own}/automations/{CANARY}"),
            "",
            404,
            "not_found",
        ),
        automation("automation that is no object", "a", json!([CANARY]), 400),
        automation(
            "automation without a schedule",
            "a",
            json!({"automationId": "a", "workflowId": "w"}),
            422,
        ),
        automation(
            "automation with an unknown field",
            "a",
            json!({"automationId": "a", CANARY: 1}),
            422,
        ),
        automation(
            "automation of another name",
            "a",
            json!({"automationId": "b", "schedule": {"every": "P1D"}, "workflowId": "w"}),
            422,
        ),
    ]
}

fn webhook_rows() -> Vec<BadInputCase> {
    let hook = |url: &str, event: &str| json!({"url": url, "events": [event]}).to_string();
    let secret = json!({"url": "https://example.com/", "events": ["run.completed"], "secret": "canary-c4n4ry"}).to_string();
    vec![
        row(
            "webhook without events",
            "POST",
            "/v1/webhooks",
            "{\"url\": \"https://example.com/\", \"events\": []}",
            400,
            "validation_error",
        ),
        row(
            "webhook for an unknown event type",
            "POST",
            "/v1/webhooks",
            hook("https://example.com/", CANARY),
            422,
            "validation_error",
        ),
        row(
            "webhook to something that is no URL",
            "POST",
            "/v1/webhooks",
            hook(CANARY, "run.completed"),
            400,
            "webhook_url_rejected",
        ),
        row(
            "webhook over plain HTTP",
            "POST",
            "/v1/webhooks",
            hook("http://example.com/canary-c4n4ry", "run.completed"),
            400,
            "webhook_url_rejected",
        ),
        row(
            "webhook to this machine or a private network",
            "POST",
            "/v1/webhooks",
            hook("https://169.254.169.254/canary-c4n4ry", "run.completed"),
            400,
            "webhook_url_rejected",
        ),
        row(
            "webhook URL with a user",
            "POST",
            "/v1/webhooks",
            hook("https://canary-c4n4ry@example.com/", "run.completed"),
            400,
            "webhook_url_rejected",
        ),
        row(
            "webhook for another tenant",
            "POST",
            "/v1/webhooks",
            json!({"url": "https://example.com/", "events": ["run.completed"], "tenantId": CANARY})
                .to_string(),
            403,
            "forbidden",
        ),
        row(
            "unknown webhook",
            "DELETE",
            "/v1/webhooks/canary-c4n4ry?tenantId=canary-c4n4ry",
            "",
            404,
            "subscription_not_found",
        ),
        row(
            "dead letters of an unknown webhook",
            "GET",
            "/v1/host/remembrancer/webhooks/canary-c4n4ry/dead-letters",
            "",
            404,
            "subscription_not_found",
        ),
        row(
            "webhook with a short secret",
            "POST",
            "/v1/webhooks",
            secret,
            422,
            "validation_error",
        ),
    ]
}

#[tokio::test]
async fn each_invalid_input_gets_its_documented_error() {
    let host = TestServer::new().await;
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    let rows = body_rows()
        .into_iter()
        .chain(operation_rows())
        .chain(path_rows())
        .chain(pass_rows())
        .chain(forget_rows())
        .chain(recall_rows());
    let others = webhook_rows()
        .into_iter()
        .chain(proposal_rows())
        .chain(secret_rows())
        .chain(commitment_rows())
        .chain(workshop_rows());
    for row in rows.chain(agent_rows()).chain(run_rows()).chain(others) {
        let headers: Vec<(&str, &str)> =
            row.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let answer = host
            .call(
                "key-of-a",
                row.method,
                &row.path,
                &headers,
                Body::from(row.body),
            )
            .await;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (row.status, row.code),
            "{}: {text}",
            row.what
        );
        assert!(
            !text.contains(CANARY) && !format!("{:?}", answer.headers).contains(CANARY),
            "{} echoes: {text}",
            row.what
        );
        if row.status >= 400 {
            let keys: Vec<String> = answer.json().as_object().unwrap().keys().cloned().collect();
            assert!(
                keys.iter()
                    .all(|k| ["error", "message", "details"].contains(&k.as_str())),
                "{}: {keys:?}",
                row.what
            );
            assert!(!answer.json()["message"].as_str().unwrap().is_empty());
        }
        let line = format!(
            "| {} | {} |",
            row.what,
            if row.code.is_empty() {
                row.status.to_string()
            } else {
                format!("{} `{}`", row.status, row.code)
            }
        );
        assert!(
            documented.contains(&line),
            "docs/api.md lacks the row: {line}"
        );
    }
    assert_eq!(
        host.get("/v1/host/remembrancer/events").await.json()["nextAfter"],
        json!(0),
        "nothing was stored"
    );
    for list in ["jobs", "schedules", "commitments", "heartbeats"] {
        assert_eq!(
            host.get(&format!("/v1/host/remembrancer/{list}"))
                .await
                .json(),
            json!({list: []}),
            "nothing was stored"
        );
    }
}
