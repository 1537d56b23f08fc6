//! Owns the recognition of traces written line by line: stack traces, logs, HTTP exchanges. Each
//! has lines of its own kind, and it takes several to make a trace. It does not judge by words
//! within a sentence.

use super::TraceKind;
use regex::RegexSet;
use std::sync::LazyLock;

/// Bytes of a line that are examined: its beginning shows what kind of line it is.
const LINE_BYTES_MAX: usize = 1_000;
/// Log lines that make a text a log dump.
const LOG_LINES_MIN: usize = 3;
/// Frames on lines of their own that make a text a stack trace.
const FRAMES_MIN: usize = 2;
/// Frames that make a text a stack trace when all of it is in one line.
const FLAT_FRAMES_MIN: usize = 3;
/// Headers that make a request or status line an HTTP exchange.
const HEADERS_MIN: usize = 2;

/// The kinds of lines. The number of each is that of its pattern in [`LINES`].
#[derive(Clone, Copy)]
enum LineKind {
    PythonHeader,
    PythonFrame,
    AtFrame,
    AtLocation,
    NumberedFrame,
    BacktraceHeader,
    GoHeader,
    GoFrame,
    RubyFrame,
    HashFrame,
    Log,
    HttpStartLine,
    Header,
}

const KINDS: usize = 13;

const LINE_PATTERNS: [&str; KINDS] = [
    r"Traceback \(most recent call last\)",
    r#"^\s*File \\?"[^"]+", line \d+"#,
    // at pkg.Class.method(File.java:12), at f (/a/b.js:1:2), at A.B() in C:\c.cs:line 3
    r"^\s*at (?:async |new )?[\w$.<>\[\]/@ `]+\s?\(.*?(?::\d+|Native Method|Unknown Source|<anonymous>)\)|^\s*at (?:file://)?[/\w.@-]+:\d+:\d+$|^\s*at .+ in .+:line \d+",
    r"^\s+at \S+:\d+(?::\d+)?$",
    r"^\s*\d+:\s+(?:0x[0-9a-f]+\s+-\s+)?\S*\w\S*$",
    r"^\s*(?:stack backtrace:|thread '[^']*'.* panicked at )",
    r"^goroutine \d+ \[[\w ,.]+\]:",
    r"^\s+\S+\.go:\d+(?: \+0x[0-9a-f]+)?$",
    r"^\s*(?:from )?\S+\.(?:rb|ex|exs|erl):\d+:in |^\s+\([\w. -]+\) lib/\S+:\d+: ",
    r"^\s*#\d+\s+(?:0x[0-9a-f]+ in )?\S.*(?:\(\d+\): |\) at \S+:\d+|\{main\})",
    LOG_PATTERN,
    r"^(?:[<>] )?(?:(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) \S+ HTTP/\d|HTTP/\d(?:\.\d)? \d{3}\b)",
    r"^(?:[<>] )?[A-Za-z][A-Za-z0-9-]{1,40}: ?\S",
];

// An instant with its level in any order, logfmt, syslog, access logs, klog and logcat.
const LOG_PATTERN: &str = r#"(?x) ^\s*(?:
    [\[(]? (?:\d{4}[-/]\d\d[-/]\d\d[T\ ])? \d\d:\d\d:\d\d (?:[.,]\d+)? (?:Z|\ ?[+-]\d\d:?\d\d|\ UTC)? [\])]? [\s|:-]*
        (?:\[[\w.\#:/\ -]{1,60}\]\s*)? (?:\S{1,60}\s+)? [\[<(]? (?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|FATAL|CRITICAL|SEVERE|
        (?-u:\b)(?:trace|debug|info|notice|warn|error|crit|emerg)[\]>)]) [\])>]? (?:[\s:|\[-]|$)
    | [\[<(]? (?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE) [\])>]? [\s:|-]* [\[(]? \d{4}[-/]\d\d[-/]\d\d[T\ ]\d\d:\d\d
    | (?:time|ts|timestamp|t)="?\d[^\s"]*(?:\ [^\s"=]+)?"?\ .*(?:level|lvl|severity)=
    | (?:level|lvl|severity)="?\w+"?\ .*(?:time|ts|msg)=
    | [A-Z][a-z]{2}\ +\d{1,2}\ \d\d:\d\d:\d\d\ \S+\ [\w./@-]+(?:\[\d+\])?:\s
    | \S+\ \S+\ \S+\ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\ [+-]\d{4}\]\ "
    | [IWEFD]\d{4}\ \d\d:\d\d:\d\d\.\d+\s
    | \d\d-\d\d\ \d\d:\d\d:\d\d\.\d+\ +\d+\ +\d+\ [VDIWEF]\ 
)"#;

static LINE_SET: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(LINE_PATTERNS).expect("constant patterns compile"));

// Frames within a line, for stacks whose line breaks were lost.
static FLAT_FRAME: LazyLock<regex::Regex> = LazyLock::new(|| {
    regex::Regex::new(r#"\bat (?:async )?[\w$.<>]+ ?\([^()\s]+:\d+\)|File \\?"[^"]+", line \d+"#)
        .expect("a constant pattern compiles")
});

/// The kind of trace that a text is by its lines, if it is one.
pub(super) fn line_trace_kind(text: &str) -> Option<TraceKind> {
    let mut counts = [0; KINDS];
    for line in text.lines().flat_map(|line| line.split("\\n")) {
        let end = (0..=line.len().min(LINE_BYTES_MAX))
            .rev()
            .find(|&at| line.is_char_boundary(at))
            .unwrap_or(0);
        LINE_SET
            .matches(&line[..end])
            .into_iter()
            .for_each(|kind| counts[kind] += 1);
    }
    let count = |line: LineKind| counts[line as usize];
    let flat = FLAT_FRAME.find_iter(text).take(FLAT_FRAMES_MIN).count();
    if is_stack(count) || flat >= FLAT_FRAMES_MIN || flat > 0 && count(LineKind::PythonHeader) > 0 {
        Some(TraceKind::StackTrace)
    } else if count(LineKind::HttpStartLine) > 0 && count(LineKind::Header) >= HEADERS_MIN {
        Some(TraceKind::HttpExchange)
    } else if count(LineKind::Log) >= LOG_LINES_MIN {
        Some(TraceKind::LogDump)
    } else {
        None
    }
}

/// Whether the counts of lines by kind are those of a stack trace.
fn is_stack(count: impl Fn(LineKind) -> usize) -> bool {
    let several = |line: LineKind| count(line) >= FRAMES_MIN;
    let numbered = several(LineKind::NumberedFrame)
        && count(LineKind::BacktraceHeader) + count(LineKind::AtLocation) > 0;
    several(LineKind::PythonFrame)
        || several(LineKind::AtFrame)
        || several(LineKind::RubyFrame)
        || several(LineKind::HashFrame)
        || numbered
        || count(LineKind::GoHeader) > 0 && count(LineKind::GoFrame) > 0
}
