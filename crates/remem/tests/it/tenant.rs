//! `--tenant` towards a server: a key of another tenant stops a command before it does anything.

use crate::common::{CommandOutput, remem};
use crate::common::{KEY, ServerProcess, run, run_with_input};
use serde_json::{Value, json};

const SUBJECT: &str = "zoe@example.org";

struct RunningServer {
    server: ServerProcess,
    folder: tempfile::TempDir,
}

impl RunningServer {
    fn remem(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = remem();
        command
            .current_dir(self.folder.path())
            .args(["--url", &self.server.url, "--key", KEY])
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&mut self.remem(arguments))
    }

    /// All events: every change leaves one.
    async fn events(&self) -> Value {
        let path = "/v1/host/remembrancer/events?limit=0";
        self.server.client().get(path).await.is(200).json()
    }
}

fn prepared() -> RunningServer {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(&folder.path().join("data"));
    let host = RunningServer { server, folder };
    let put = ["put", "m", "Zoe likes tea", "--subject", SUBJECT];
    host.run(&put).exits(0);
    host
}

#[tokio::test]
async fn a_key_of_another_tenant_stops_every_command() {
    let host = prepared();
    let before = host.events().await;
    let rules = host.folder.path().join("rules.json");
    std::fs::write(&rules, "{}").unwrap();
    let commands: &[&[&str]] = &[
        &["put", "m", "x"],
        &["get", "m", "mem_1"],
        &["list", "m"],
        &["search", "m", "tea"],
        &["recall", "m", "tea"],
        &["delete", "m", "mem_1"],
        &["forget", SUBJECT, "--yes"],
        &["erasure", "list"],
        &["lineage", "m", "mem_1"],
        &["archive", "list", "m"],
        &["commitment", "list"],
        &[
            "commitment",
            "create",
            "m",
            "Ship it",
            "--at",
            "2040-01-01T00:00:00Z",
        ],
        &["heartbeat", "list"],
        &["history", "m", "q"],
        &["session", "list", "m"],
        &["audit", "m", "mem_1"],
        &["rule", "list", "w"],
        &["profile", "list"],
        &["stats", "m"],
        &["memories"],
        &["events", "tail", "--no-follow"],
        &["whoami"],
        &["secret", "list"],
        &["secret", "delete", "x"],
        &["tenant", "list"],
        &["tenant", "create", "y"],
        &["pass", "list"],
        &["pass", "run", "purge"],
        &["agent", "list"],
        &["proposal", "list"],
        &["automation", "list"],
        &["export"],
        &["import", "-", "--ref", "m"],
    ];
    for arguments in commands {
        for named in ["ok-tenant", "DEFAULT", "default "] {
            let mut command = host.remem(&["--tenant", named]);
            let ran = run_with_input(command.args(*arguments), "{\"content\": \"x\"}\n");
            let ran = ran.exits(2);
            assert!(
                ran.stderr.contains("--tenant"),
                "{arguments:?}: {}",
                ran.stderr
            );
            assert_eq!(ran.stdout, "", "{arguments:?}");
        }
    }
    let by_environment = run(host.remem(&["list", "m"]).env("REMEM_TENANT", "other"));
    by_environment.exits(2);
    assert_eq!(host.events().await, before, "nothing was done");
    let tenants = host.run(&["--json", "tenant", "list"]).exits(0).json();
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1);
}

#[test]
fn the_tenant_option_is_optional_and_may_name_the_keys_tenant() {
    let host = prepared();
    for arguments in [&["list", "m"][..], &["--tenant", "default", "list", "m"]] {
        let listed = run(host.remem(&["--json"]).args(arguments)).exits(0);
        assert!(listed.stdout.contains("Zoe likes tea"), "{}", listed.stdout);
    }
    // A key is made for the tenant that is named, by one that may, and for `default` otherwise.
    let made = host.run(&["--tenant", "acme", "--json", "key", "create"]);
    let key = made.exits(0).json();
    assert_eq!(key["tenant"], "acme");
    let own = host.run(&["--json", "key", "create"]).exits(0).json();
    assert_eq!(own["tenant"], "default");
    let listed = host.run(&["--tenant", "acme", "--json", "key", "list"]);
    let listed = listed.exits(0).json();
    assert_eq!(listed["keys"][0]["id"], key["id"]);
    let text = key["key"].as_str().unwrap();
    let mut theirs = remem();
    theirs.args(["--url", &host.server.url, "--key", text, "--json", "whoami"]);
    let reported = run(theirs.args(["--tenant", "acme"])).exits(0).json();
    assert_eq!(
        reported,
        json!({"tenant": "acme", "principal": key["id"], "keyId": key["id"],
            "scopes": ["memory:read", "memory:write"], "trust": "model"})
    );
    let mut theirs = remem();
    theirs.args(["--url", &host.server.url, "--key", text, "whoami"]);
    assert!(run(&mut theirs).exits(0).stdout.contains("acme"));
}
