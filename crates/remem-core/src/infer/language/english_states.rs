//! language::english_states: English words of conditions and states, and the forms of their verbs.
//! Data only.

use super::StateWords;

#[rustfmt::skip]
pub(super) const STATES: StateWords = StateWords {
    conjunctions: &[
        "when", "whenever", "once", "as soon as", "after", "until", "till", "if", "every time", "each time", "the moment",
        "the minute", "in case", "only when", "only if", "only once", "right after",
    ],
    conditional: &["if", "in case", "only if"],
    ending_conjunctions: &["until", "till"],
    clause_ends: &["then", "so", "please", "because", "but", "or", "since", "let", "for", "while", "and", "without", "before", "even", "even if", "whether", "which", "who"],
    unobservable_subjects: &[
        "i", "you", "we", "i'm", "i've", "i'd", "i'll", "you're", "you've", "you'd", "you'll", "we're", "we've", "we'd", "we'll",
        "me", "us", "myself", "yourself", "u", "to", "possible", "needed", "necessary", "what", "how",
    ],
    figurative_words: &["ever"],
    vague: &[
        "it", "it's", "he", "she", "they", "they're", "he's", "she's", "that's", "there",
        "there's", "anything", "something", "everything", "nothing", "anyone", "someone", "everyone", "anybody", "somebody",
        "everybody", "any", "some", "things", "people", "one", "another", "no",
    ],
    hypothetical_verbs: &["would", "could", "might", "should", "may", "can", "were", "wouldn't", "couldn't"],
    auxiliaries: &[
        "is", "are", "was", "were", "be", "been", "being", "am", "has", "have", "had", "will", "gets", "get", "got", "gotten", "does",
        "do", "did", "becomes", "become", "became",
    ],
    forms_of_be: &["is", "are", "was", "were", "be", "been", "being", "am", "keeps", "kept"],
    past_auxiliaries: &["was", "were", "had", "did", "became"],
    ignored_words: &[
        "the", "a", "an", "all", "finally", "completely", "fully", "already", "just", "now", "successfully", "eventually", "again",
        "officially", "actually", "entirely", "totally", "recently", "also", "really", "then", "please", "yesterday", "today", "my",
        "our", "your", "earlier", "whole", "fyi", "btw", "hey", "of", "that", "this", "these", "those", "its", "their", "too", "both",
    ],
    hedging_words: &[
        "will", "would", "could", "might", "should", "may", "can", "must", "shall", "maybe", "perhaps", "probably", "possibly",
        "hopefully", "apparently", "supposedly", "allegedly", "almost", "nearly", "soon", "yet", "likely", "unlikely", "if", "whether",
        "when", "whenever", "once", "until", "till", "unless", "after", "before", "as", "some", "half", "most", "few", "only", "partly",
        "partially", "none", "ever", "tomorrow", "tonight", "next", "every", "each", "wish", "hope", "hopes", "want", "wants", "wanted",
        "expect", "expects", "expected", "scheduled", "planned", "supposed", "pretend", "imagine", "suppose", "about", "let", "used",
        "going", "because", "which", "who", "rarely", "usually", "often", "always", "sometimes", "daily", "weekly", "monthly",
        "says", "claims", "thinks", "believes", "doubt", "doubts", "rumour", "rumor", "waiting", "wait", "it", "he", "she",
        "they", "there", "i'll", "we'll", "promised", "agreed",
    ],
    infinitive: "to",
    possessive_ending: "'s",
    plural_ending: "s",
    unchanged_verbs: &["hit", "reset", "set", "cut", "put", "quit", "shut", "split"],
    base_form: super::english_forms::base_form,
    verbs: &[
        "accept", "activate", "answer", "appear", "apply", "approve", "archive", "arrive", "assign", "award", "begin", "boot", "break",
        "bounce", "build", "buy", "call", "cancel", "change", "charge", "check", "clear", "close", "come", "commit", "complete", "confirm", "connect", "crash",
        "create", "cross", "decide", "decline", "degrade", "delete", "deliver", "deploy", "deposit", "deprecate", "detect", "die", "disconnect", "dispatch",
        "double", "drop", "email", "empty", "end", "enter", "escalate", "exceed", "execute", "expire", "fail", "fall", "file", "fill", "finalise",
        "finalize", "finish", "fire", "fix", "freeze", "go", "grade", "grant", "happen", "hire", "hit", "implement", "improve", "increase", "install",
        "invoice", "issue", "join", "land", "launch", "lapse", "leave", "lift", "list", "load", "lock", "lose", "mature", "merge", "migrate", "move", "notarise",
        "notarize", "note", "open", "order", "pass", "pay", "phone", "pick", "play", "post", "print", "process", "promote", "provision",
        "publish", "reach", "react", "receive", "recover", "refund", "refuse", "register", "reject", "release", "remove", "renew", "reopen", "repair", "replace",
        "reply", "report", "reset", "resolve", "respond", "restart", "restore", "resume", "return", "revert", "review", "ring", "rise", "rotate", "run",
        "save", "schedule", "seal", "sell", "send", "settle", "ship", "show", "sign", "slip", "sort", "spike", "stabilise", "stabilize", "stall",
        "start", "stop", "submit", "succeed", "sync", "take", "terminate", "test", "time", "train", "transfer", "trigger", "turn", "unblock", "unlock", "update",
        "upgrade", "upload", "vacate", "validate", "verify", "wake", "win", "work", "write",
    ],
    adjectives: &[
        "active", "available", "back", "below", "above", "better", "cancelled", "clean", "complete", "correct", "dead", "done", "down", "due", "empty", "final",
        "full", "gone", "green", "healthy", "here", "home", "idle", "in", "late", "live", "low", "off", "offline", "ok", "okay", "on",
        "online", "open", "out", "over", "overdue", "public", "ready", "red", "ripe", "running", "safe", "stable", "stuck", "unavailable",
        "unhealthy", "up", "warm", "ill", "sick", "well", "valid", "invalid", "visible", "dry", "free", "true", "false", "finished", "through", "under",
    ],
    irregular: &[
        ("arisen", "arise"), ("arose", "arise"), ("began", "begin"), ("begun", "begin"), ("bought", "buy"), ("broke", "break"), ("broken", "break"),
        ("brought", "bring"), ("built", "build"), ("came", "come"), ("children", "child"), ("chose", "choose"), ("chosen", "choose"), ("died", "die"), ("dies", "die"),
        ("done", "done"), ("fell", "fall"), ("fallen", "fall"), ("felt", "feel"), ("found", "find"), ("froze", "freeze"), ("frozen", "freeze"),
        ("gave", "give"), ("given", "give"), ("goes", "go"), ("gone", "go"), ("grew", "grow"), ("grown", "grow"), ("held", "hold"), ("kept", "keep"),
        ("knew", "know"), ("known", "know"), ("left", "leave"), ("lost", "lose"), ("made", "make"), ("meant", "mean"), ("met", "meet"),
        ("news", "news"), ("paid", "pay"), ("people", "people"), ("ran", "run"), ("rang", "ring"), ("risen", "rise"), ("rose", "rise"), ("rung", "ring"), ("said", "say"),
        ("sent", "send"), ("series", "series"), ("shown", "show"), ("sold", "sell"), ("sprint", "sprint"), ("status", "status"), ("stood", "stand"),
        ("taken", "take"), ("thought", "think"), ("threw", "throw"), ("thrown", "throw"), ("told", "tell"), ("took", "take"),
        ("underwent", "undergo"), ("went", "go"), ("woke", "wake"), ("woken", "wake"), ("won", "win"), ("written", "write"), ("wrote", "write"),
        ("shipped", "ship"), ("cancelled", "cancel"), ("canceled", "cancel"), ("cancelling", "cancel"), ("synced", "sync"), ("syncs", "sync"),
        ("resubmitted", "resubmit"), ("transferred", "transfer"), ("finished", "finish"), ("seen", "see"), ("saw", "see"), ("does", "do"), ("did", "do"),
    ],
};
