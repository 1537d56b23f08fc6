//! Owns the recognition of traces written as JSON, by their keys and by the values of some of them.
//! It reads the keys from the text, without building a tree, so that truncated, escaped and
//! line-wise JSON is recognised as well.

use super::TraceKind;
use crate::sabotage;
use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::sync::LazyLock;

// A key, and its value if that is a short string or a number. Quotes may be single (other
// languages) or escaped (JSON in JSON).
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\\?["']([@A-Za-z_][A-Za-z0-9_.@-]{0,40})\\?["']\s*:\s*(?:\\?["']([A-Za-z0-9_/.-]{1,40})\\?["']|(\d{1,3})\b)?"#)
        .expect("a constant pattern compiles")
});

/// Keys of spans, in lower case and without punctuation. Two of them identify a span.
const SPAN_KEYS: [&str; 18] = [
    "traceid",
    "spanid",
    "parentspanid",
    "parentid",
    "resourcespans",
    "scopespans",
    "resourcelogs",
    "scopelogs",
    "traceparent",
    "tracestate",
    "traceflags",
    "starttimeunixnano",
    "endtimeunixnano",
    "timeunixnano",
    "ddtraceid",
    "ddspanid",
    "instrumentationscope",
    "droppedattributescount",
];
/// Keys around tool calls. Two of them identify a call.
const TOOL_KEYS: [&str; 10] = [
    "toolcalls",
    "toolcallid",
    "tooluseid",
    "functioncall",
    "toolname",
    "toolinput",
    "tooloutput",
    "toolresult",
    "toolcall",
    "toolargs",
];
/// Values of `type` that identify a tool call, together with one of its usual keys.
const TOOL_TYPES: [&str; 7] = [
    "tool_use",
    "tool_result",
    "tool_call",
    "tool_calls",
    "function_call",
    "function_call_output",
    "tool-call",
];
/// Names of log levels, in lower case.
const LEVELS: [&str; 11] = [
    "trace",
    "debug",
    "info",
    "information",
    "notice",
    "warn",
    "warning",
    "error",
    "err",
    "fatal",
    "critical",
];
/// Values of `role` in the messages of a conversation with a model.
const ROLES: [&str; 4] = ["assistant", "user", "system", "tool"];

/// The keys of a text, and the facts read from the values of some of them.
#[derive(Default)]
struct JsonKeys {
    names: BTreeSet<String>,
    has_level: bool,
    has_tool_type: bool,
    has_function_type: bool,
    roles: usize,
}

/// The shape of a text that is JSON for the most part.
pub(super) fn json_trace_kind(text: &str) -> Option<TraceKind> {
    // A sentence with an example in it is not a trace: JSON must make up three fifths of the text.
    let begin = text.find(['{', '['])?;
    let end = text.rfind(['}', ']']).map_or(text.len(), |last| {
        if text[last..].contains('"') {
            text.len()
        } else {
            last + 1
        }
    });
    if !text.contains('{')
        || end.saturating_sub(begin) * sabotage!("a-sentence-with-an-example-is-a-trace", 5, 500)
            < text.trim().len() * 3
    {
        return None;
    }
    let keys = read_keys(&text[begin..end.max(begin)]);
    if is_telemetry(&keys) {
        Some(TraceKind::Telemetry)
    } else if is_tool_call(&keys) {
        Some(TraceKind::ToolCall)
    } else if keys.all(&["request", "response"])
        && keys.any(&["headers", "status", "statuscode", "method"])
    {
        Some(TraceKind::HttpExchange)
    } else {
        None
    }
}

/// Reads all keys of a text.
fn read_keys(text: &str) -> JsonKeys {
    let mut keys = JsonKeys::default();
    for pair in PAIR.captures_iter(text) {
        keys.add(&pair);
    }
    keys
}

impl JsonKeys {
    /// Adds a key, and what its value says about level, type and role.
    fn add(&mut self, pair: &Captures<'_>) {
        let name: String = pair[1]
            .chars()
            .filter(|c| !matches!(c, '_' | '-' | '.' | '@'))
            .collect::<String>()
            .to_ascii_lowercase();
        let value = pair.get(2).map_or("", |value| value.as_str());
        match name.as_str() {
            // Numbers of levels are multiples of ten.
            "level" | "severity" | "loglevel" | "levelname" | "lvl" | "severitytext" => {
                let number = pair.get(3).is_some_and(|number| {
                    matches!(number.as_str(), "10" | "20" | "30" | "40" | "50" | "60")
                });
                self.has_level |= number || LEVELS.contains(&value.to_ascii_lowercase().as_str());
            }
            "type" => {
                self.has_tool_type |= TOOL_TYPES.contains(&value);
                self.has_function_type |= value == "function";
            }
            "role" => self.roles += usize::from(ROLES.contains(&value)),
            _ => {}
        }
        self.names.insert(name);
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn all(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.has(name))
    }

    fn any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    fn count(&self, names: &[&str]) -> usize {
        names.iter().filter(|name| self.has(name)).count()
    }
}

fn is_telemetry(keys: &JsonKeys) -> bool {
    let is_log = keys.has_level
        && keys.any(&[
            "timestamp",
            "time",
            "ts",
            "asctime",
            "datetime",
            "eventtime",
        ])
        && keys.any(&[
            "logger",
            "loggername",
            "msg",
            "message",
            "event",
            "hostname",
            "pid",
            "thread",
            "threadname",
            "service",
            "caller",
            "target",
        ]);
    let is_profile = keys.all(&["ph", "ts", "pid", "tid"]);
    let is_event = keys.all(&["specversion", "source", "type", "id"]);
    keys.count(&SPAN_KEYS) >= 2
        || keys.any(&["resourcespans", "scopespans"])
        || is_log
        || is_profile
        || is_event
}

fn is_tool_call(keys: &JsonKeys) -> bool {
    let is_function = keys.all(&["name", "arguments"])
        && (keys.has_function_type || keys.has("function") || keys.names.len() <= 3);
    let is_rpc = keys.has("jsonrpc") && keys.any(&["method", "result", "error"]);
    let is_transcript = keys.roles >= 2 && keys.any(&["content", "parts"]);
    let typed = keys.has_tool_type
        && keys.any(&["input", "content", "arguments", "name", "output", "args"]);
    keys.count(&TOOL_KEYS) >= 2
        || keys.has("toolcalls")
        || is_function
        || is_rpc
        || is_transcript
        || typed
}
