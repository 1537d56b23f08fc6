//! Owns the recognition of payloads that are traces of what happened rather than memory of what was
//! learned. It looks at shapes alone: a sentence about stack traces is no stack trace, and one line
//! of an error is no dump. It may not parse more than it needs: cut and broken payloads are traces
//! too.

mod json;
mod lines;

/// What kind of trace a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceShape {
    /// Spans, trace events or records of logs as JSON.
    Telemetry,
    /// Calls of tools, or the messages around them, as JSON.
    ToolCall,
    /// The frames of a stack.
    StackTrace,
    /// Lines of a log.
    LogDump,
    /// Requests and answers with their headers.
    HttpExchange,
}

impl TraceShape {
    /// The name as it stands in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TraceShape::Telemetry => "telemetry",
            TraceShape::ToolCall => "tool-call",
            TraceShape::StackTrace => "stack-trace",
            TraceShape::LogDump => "log-dump",
            TraceShape::HttpExchange => "http-exchange",
        }
    }
}

/// The shape of a trace that a text has, if it has one.
#[must_use]
pub fn trace_shape(text: &str) -> Option<TraceShape> {
    json::shape(text).or_else(|| lines::shape(text))
}
