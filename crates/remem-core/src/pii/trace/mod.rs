//! Owns the recognition of payloads that are traces of what happened rather than memory of what was
//! learned. It checks only shapes: a sentence about stack traces is not a stack trace, and one line
//! of an error is not a dump. It does not need a payload to parse: truncated and broken payloads
//! are traces too.

mod json;
mod lines;

/// The kinds of payload that are traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceKind {
    /// Spans, trace events or log records as JSON.
    Telemetry,
    /// Tool calls, or the messages around them, as JSON.
    ToolCall,
    /// The frames of a stack.
    StackTrace,
    /// Lines of a log.
    LogDump,
    /// HTTP requests and responses with their headers.
    HttpExchange,
}

impl TraceKind {
    /// The name that error responses show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TraceKind::Telemetry => "telemetry",
            TraceKind::ToolCall => "tool-call",
            TraceKind::StackTrace => "stack-trace",
            TraceKind::LogDump => "log-dump",
            TraceKind::HttpExchange => "http-exchange",
        }
    }
}

/// The kind of trace that a text is, if it is one.
#[must_use]
pub fn trace_kind(text: &str) -> Option<TraceKind> {
    json::json_trace_kind(text).or_else(|| lines::line_trace_kind(text))
}
