//! Proves that the examples of README.md and docs/*.md do what they show: every ```console and
//! ```sh block is typed into a shell beside a fresh host, page by page, and its output compared.
//!
//! In a page `$ ` begins a command and what follows is its output. `…` matches any text, and alone
//! on a line any lines; a command without output below it may print anything. Ids, instants and the
//! spaces between columns do not count. A block that cannot run is listed in `NOT_RUN` with the
//! reason.

use crate::common::{ServerProcess, place};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Blocks that are not run: the page, how the block begins, and why.
const NOT_RUN: [(&str, &str, &str); 15] = [
    ("README.md", "cargo run --release", "builds for minutes"),
    (
        "README.md",
        "remem migrate --database",
        "needs a PostgreSQL server",
    ),
    (
        "docs/configuration.md",
        "REMEM_DATABASE=",
        "needs a PostgreSQL server",
    ),
    (
        "docs/forgetting.md",
        "remem forget person:4711 --dry-run",
        "asks on a terminal",
    ),
    (
        "docs/forgetting.md",
        "remem erasure verify ada.json",
        "names another host",
    ),
    (
        "docs/model.md",
        "REMEM_MODEL__BASE_URL=",
        "needs a language model",
    ),
    (
        "docs/model.md",
        "remem secret set model-key",
        "reads a key from the terminal",
    ),
    (
        "docs/models.md",
        "remem model install",
        "needs a package index",
    ),
    (
        "docs/models.md",
        "python3 -m pip download",
        "needs a package index",
    ),
    (
        "docs/models.md",
        "remem model verify",
        "needs an installed model",
    ),
    (
        "docs/operations.md",
        "remem copy --from sqlite:",
        "needs a PostgreSQL server",
    ),
    ("docs/operations.md", "openssl rand", "needs openssl"),
    (
        "docs/passes.md",
        "remem pass run compact --scope agents/one",
        "a pattern of commands",
    ),
    (
        "docs/passes.md",
        "remem pass cancel JOB",
        "a pattern of a command",
    ),
    (
        "docs/workshop.md",
        "remem link '~/ops' mem_…",
        "names an entry of the reader",
    ),
];

/// Commands whose effects a page takes for granted.
const GIVEN: [(&str, &str); 2] = [
    (
        "docs/workshop.md",
        r#"echo '{"id": "r1", "body": "A change is accepted only when its coverage is at least eighty per cent and two reviewers have signed it."}' > rules.jsonl"#,
    ),
    (
        "docs/commitments.md",
        r#"for id in follow-up ship; do
  curl -sf -X PUT $API/workflows/$id -H "Authorization: Bearer $KEY" \
    -d "{\"id\": \"$id\", \"nodes\": [{\"id\": \"note\", \"typeId\": \"core.noop\"}]}"
done"#,
    ),
];

/// A command and the output that the page shows below it.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// One block of a page.
#[derive(Debug)]
struct Block {
    steps: Vec<Step>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and docs/*.md with their texts.
fn pages() -> Vec<(String, String)> {
    let mut names = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    let read = |name: String| {
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let is_console = line == "```console";
        if !is_console && line != "```sh" {
            continue;
        }
        let body: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| *line != "```")
            .collect();
        blocks.push(Block {
            steps: if is_console {
                console(&body)
            } else {
                script(&body)
            },
        });
    }
    blocks
}

/// A block of commands alone is one command.
fn script(body: &[(usize, &str)]) -> Vec<Step> {
    let lines: Vec<&str> = body.iter().map(|(_, line)| *line).collect();
    vec![Step {
        line: body[0].0 + 1,
        command: lines.join("\n"),
        output: Vec::new(),
    }]
}

fn console(body: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in body {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                line: number + 1,
                command: command.to_owned(),
                output: Vec::new(),
            });
            continue;
        }
        let step = steps
            .last_mut()
            .unwrap_or_else(|| panic!("no `$ ` before: {line}"));
        if step.output.is_empty() && step.command.ends_with('\\') {
            step.command.push('\n');
            step.command.push_str(line);
        } else {
            step.output.push((*line).to_owned());
        }
    }
    steps
}

fn is_not_run(page: &str, block: &Block) -> bool {
    let first = &block.steps[0].command;
    NOT_RUN
        .iter()
        .any(|(of, begins, _)| *of == page && first.starts_with(begins))
}

/// Overwrites what differs from run to run: ids, instants, digests; spaces become one.
fn normal(line: &str) -> String {
    let mut text = line.split_whitespace().collect::<Vec<_>>().join(" ");
    for shape in ["9999-99-99T99:99:99.999Z", "9999-99-99"] {
        while let Some(at) = mask_find(&text, shape) {
            text.replace_range(at..at + shape.len(), "TIME");
        }
    }
    let mut made = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, after) = from.split_at(end.unwrap_or(from.len()));
        made.push_str(before);
        made.push_str(&without_id(word));
        rest = after;
    }
    made + rest
}

/// The position where digits have the given shape.
fn mask_find(text: &str, shape: &str) -> Option<usize> {
    let mask: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    mask.find(shape)
}

fn without_id(word: &str) -> String {
    let is_hex = |text: &str| text.len() >= 16 && text.chars().all(|c| c.is_ascii_hexdigit());
    match word.rsplit_once('_') {
        Some((prefix, id)) if is_hex(id) => format!("{prefix}_ID"),
        None if is_hex(word) => "ID".to_owned(),
        _ => word.to_owned(),
    }
}

/// Whether a line is as the page shows it, `…` being any text.
fn line_fits(shown: &str, real: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| real.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

fn fits(shown: &[String], real: &[String]) -> bool {
    match (shown.split_first(), real.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "…" => {
            fits(rest, real) || !real.is_empty() && fits(shown, &real[1..])
        }
        (Some((first, rest)), Some((line, more))) => line_fits(first, line) && fits(rest, more),
        _ => false,
    }
}

/// Types the commands of a page into one shell; answers what each printed, and its exit code.
fn typed(page: &str, steps: &[&Step], folder: &Path, server: &ServerProcess) -> Vec<(String, i32)> {
    let port = server.url.rsplit_once('/').unwrap().1;
    let mut script = "exec 2>&1\n".to_owned();
    for (_, given) in GIVEN.iter().filter(|(of, _)| *of == page) {
        script.push_str(&format!("{given}\n"));
    }
    for step in steps {
        let command = step.command.replace("127.0.0.1:7077", port);
        script.push_str(&format!("printf '\\036'\n{command}\nprintf '\\035%s' $?\n"));
    }
    let program = Path::new(env!("CARGO_BIN_EXE_remem"));
    let path = std::env::var("PATH").unwrap_or_default();
    let key = std::fs::read_to_string(folder.join("remem-data/bootstrap.key")).unwrap();
    let mut shell = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("REMEM_")) {
        shell.env_remove(name);
    }
    shell
        .args(["-c", &script])
        .current_dir(folder)
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .env("REMEM_URL", &server.url)
        .env("KEY", key.trim())
        .env("API", format!("{}/v1/host/remembrancer", server.url))
        .env("URL", &server.url)
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::null());
    let output = shell.output().expect("bash is there");
    let text = String::from_utf8_lossy(&output.stdout).replace(port, "127.0.0.1:7077");
    let step = |part: &str| {
        let (printed, code) = part.rsplit_once('\u{1d}').unwrap_or((part, "-1"));
        (printed.to_owned(), code.trim().parse().unwrap_or(-1))
    };
    text.split('\u{1e}').skip(1).map(step).collect()
}

/// What a page shows and its commands did not do.
fn faults(page: &str, text: &str) -> Vec<String> {
    let blocks = blocks(text);
    let run = blocks.iter().filter(|block| !is_not_run(page, block));
    let steps: Vec<&Step> = run.flat_map(|block| &block.steps).collect();
    if steps.is_empty() {
        return Vec::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("remem-data");
    let server = ServerProcess::start_with(&data, &[], &[("REMEM_BOOTSTRAP_KEY", "")]);
    let mut faults = Vec::new();
    let mut done = typed(page, &steps, folder.path(), &server).into_iter();
    for step in steps {
        let (printed, code) = done.next().unwrap_or_default();
        let real: Vec<String> = printed.lines().map(normal).collect();
        let shown: Vec<String> = step.output.iter().map(|line| normal(line)).collect();
        let is_error = shown.iter().any(|line| line.starts_with("error: "));
        let as_shown = shown.is_empty() || fits(&shown, &real);
        if !as_shown || (code != 0) != is_error {
            faults.push(format!(
                "{page}:{}: $ {}\nexit code {code}, printed:\n{printed}",
                step.line, step.command
            ));
        }
    }
    faults
}

#[test]
fn every_documented_example_prints_what_the_page_shows() {
    if place::is_postgres() {
        return; // the pages are about a host with nothing configured
    }
    for tool in ["bash", "curl", "jq"] {
        let there = Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        assert!(there.is_ok(), "the examples use {tool}: install it");
    }
    let pages = pages();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = pages
            .iter()
            .map(|(page, text)| scope.spawn(move || faults(page, text)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.flatten().collect()
    });
    assert!(
        faults.is_empty(),
        "{} examples fail:\n{}",
        faults.len(),
        faults.join("\n---\n")
    );
}

#[test]
fn every_excluded_block_exists_in_its_page() {
    let pages = pages();
    for (page, begins, _) in NOT_RUN {
        let text = &pages.iter().find(|(name, _)| name == page).unwrap().1;
        let there = blocks(text)
            .iter()
            .any(|block| block.steps[0].command.starts_with(begins));
        assert!(there, "{page} has no block that begins with {begins}");
    }
}

#[test]
fn examples_are_compared_without_ids_and_times() {
    let shown =
        "{\"id\":\"mem_01a1debaad66743fa252d7db0ead5196\",\"at\":\"2026-11-15T10:22:18.460Z\",…}";
    let real = "{\"id\":\"mem_99a1debaad66743fa252d7db0ead5100\",\"at\":\"2027-01-01T00:00:00.000Z\",\"x\":1}";
    assert!(line_fits(&normal(shown), &normal(real)));
    assert!(!line_fits(&normal(shown), &normal("{\"id\":7}")));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a\n…\nd"), &lines("a\nb\nc\nd")));
    assert!(fits(&lines("a\n…"), &lines("a")));
    assert!(!fits(&lines("a\n…\nd"), &lines("a\nb")));
}
