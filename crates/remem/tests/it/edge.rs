//! The edge of a host, where callers need no key: what they may choose does not grow metrics or show
//! in the log, and a request names one host.

use crate::common::{KEY, ServerProcess};
use std::io::{Read, Write};
use std::net::TcpStream;

const CANARY: &str = "CANARYMETHOD";

/// Sends bytes over a connection of their own; gives the whole answer.
fn raw(server: &ServerProcess, request: &str) -> String {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn an_unknown_http_method_is_never_echoed_labelled_or_logged() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(folder.path(), &[], &[("REMEM_LOG__LEVEL", "trace")]);
    for n in 0..50 {
        for path in ["/health", "/nowhere", "/mcp"] {
            let method = format!("{CANARY}{n}");
            let answer = raw(
                &server,
                &format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            );
            assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
            assert!(!answer.contains(CANARY), "{answer}");
        }
    }
    let metrics = server.client().get("/metrics").await.is(200).text;
    assert!(
        metrics.contains("method=\"other\""),
        "they are counted: {metrics}"
    );
    assert!(!metrics.contains(CANARY), "{metrics}");
    assert!(!server.output().contains(CANARY));
}

#[test]
fn http_1_1_requires_exactly_one_host_header() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let ask = |version: &str, hosts: &str| {
        let head = format!("GET /v1/host/remembrancer/memory {version}\r\n{hosts}");
        let rest = format!("Authorization: Bearer {KEY}\r\nConnection: close\r\n\r\n");
        let answer = raw(&server, &format!("{head}{rest}"));
        answer[9..12].to_owned()
    };
    assert_eq!(ask("HTTP/1.1", "Host: x\r\n"), "200");
    assert_eq!(ask("HTTP/1.1", ""), "400");
    assert_eq!(ask("HTTP/1.1", "Host: x\r\nHost: x\r\n"), "400");
    assert_eq!(ask("HTTP/1.1", "Host: x\r\nHost: y\r\n"), "400");
    assert_eq!(
        ask("HTTP/1.0", ""),
        "200",
        "the older version has no such header"
    );
}

/// The status and body of a `tools/list` over MCP, asked for with these headers.
fn list_tools(server: &ServerProcess, headers: &str) -> String {
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}"#;
    let length = body.len();
    let answer = raw(
        server,
        &format!(
            "POST /mcp HTTP/1.1\r\n{headers}Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    );
    answer
        .split_once("\r\n\r\n")
        .map_or(answer.clone(), |(head, body)| {
            format!("{} {body}", &head[9..12])
        })
}

/// A web page that has its own name resolved to the loopback must not reach the tools with it.
#[test]
fn a_foreign_name_in_host_or_origin_is_refused_by_loopback_mcp() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = ("REMEM_SERVER__HOSTS", r#"["memory.example.com"]"#);
    for (settings, named) in [(&[][..], "403"), (&[hosts][..], "200")] {
        let server = ServerProcess::start_with(folder.path(), &[], settings);
        for (headers, status) in [
            ("Host: localhost\r\n", "200"),
            ("Host: 127.0.0.1:7077\r\n", "200"),
            ("Host: [::1]:7077\r\n", "200"),
            (
                "Host: localhost\r\nOrigin: http://localhost:6274\r\n",
                "200",
            ),
            ("Host: evil.example.com\r\n", "403"),
            ("Host: localhost.evil.example.com\r\n", "403"),
            (
                "Host: localhost\r\nOrigin: http://evil.example.com\r\n",
                "403",
            ),
            ("Host: localhost\r\nOrigin: null\r\n", "403"),
            ("Host: memory.example.com\r\n", named),
            (
                "Host: localhost\r\nOrigin: https://memory.example.com\r\n",
                named,
            ),
        ] {
            let answer = list_tools(&server, headers);
            assert!(answer.starts_with(status), "{headers}: {answer}");
            if status == "403" {
                let refused: serde_json::Value = serde_json::from_str(&answer[4..]).unwrap();
                assert_eq!(refused["error"]["code"], -32600, "{answer}");
                assert_eq!(refused["error"]["data"]["error"], "forbidden", "{answer}");
                assert!(!answer.contains("evil"), "{answer}");
            }
        }
    }
}

/// With any mode of the folder, only their owner can read the files in it, those of an earlier
/// version too.
#[cfg(unix)]
#[test]
fn files_are_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let open = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(folder.path(), open(0o755)).unwrap();
    let files = || {
        let mut found: Vec<std::path::PathBuf> = Vec::new();
        for place in [folder.path().to_owned(), folder.path().join("tenants")] {
            let entries = std::fs::read_dir(place).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
        found.retain(|path| path.is_file());
        found
    };
    let mut server = ServerProcess::start(folder.path());
    let seen = files();
    assert!(
        seen.iter()
            .any(|f| f.to_string_lossy().ends_with("default.db-wal")),
        "{seen:?}"
    );
    for round in ["new", "of before"] {
        for file in files() {
            let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{round}: {}", file.display());
        }
        server.kill9();
        for file in files() {
            std::fs::set_permissions(&file, open(0o644)).unwrap();
        }
        for name in ["host.key", "bootstrap.key"] {
            // Written once and never again: the server does not restrict it.
            let _ = std::fs::set_permissions(folder.path().join(name), open(0o600));
        }
        server = ServerProcess::start(folder.path());
    }
}

/// Many systems start a process with room for few files, and let it make more.
#[cfg(target_os = "linux")]
#[test]
fn as_many_files_may_be_open_as_the_hard_limit_allows() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let serve =
        "ulimit -Sn 64; ulimit -Hn 512; exec \"$0\" serve --listen 127.0.0.1:0 --data-dir \"$1\"";
    let mut child = std::process::Command::new("sh")
        .args(["-c", serve, env!("CARGO_BIN_EXE_remem")])
        .arg(folder.path())
        .env_clear()
        .envs(std::env::vars().filter(|(name, _)| name == "SABOTAGE"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut greeting);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(read.is_ok() && greeting.contains("is ready"), "{greeting}");
    let limits = limits.unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let figures: Vec<&str> = line.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(figures, ["512", "512"]);
}
