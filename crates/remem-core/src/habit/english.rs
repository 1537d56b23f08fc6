//! english: the English words that mark a stated way of working. Data only; lower case, straight
//! apostrophes.

/// Words without meaning of their own at the beginning of a clause.
#[rustfmt::skip]
pub(super) const OPENERS: &[&str] = &[
    "also", "and", "anyway", "btw", "but", "fyi", "great", "hey", "hi", "just", "note", "note that", "oh", "ok", "okay", "please",
    "remember", "remember to", "reminder", "right", "so", "thanks", "then", "yes",
];

/// Phrases that make a sentence hold beyond its moment.
#[rustfmt::skip]
pub(super) const LASTING_PHRASES: &[&str] = &[
    "as a matter of principle", "as a rule", "by default", "from here on", "from here on out", "from now on", "from this point on",
    "going forward", "henceforth",
];

/// Phrases that limit a sentence to this once.
#[rustfmt::skip]
pub(super) const ONE_OFF: &[&str] = &[
    "for now", "for the moment", "just once", "now", "right away", "temporarily", "this afternoon", "this evening", "this month",
    "this morning", "this once", "this one", "this time", "this week", "till", "today", "tomorrow", "tonight", "until", "yesterday", "yet",
];

/// Words that may begin a clause of time or condition.
#[rustfmt::skip]
pub(super) const CONDITIONS: &[&str] = &[
    "after", "any time", "before", "each time", "every time", "for", "if", "on", "when", "whenever", "while",
];

/// Those of [`CONDITIONS`] that say that the occasion recurs.
pub(super) const REPEATING: &[&str] = &["any time", "each time", "every time", "whenever"];

/// Pronouns by which the writers of a sentence refer to themselves.
pub(super) const SPEAKERS: &[&str] = &["i", "we"];

/// Subjects whose customs are a way of working.
#[rustfmt::skip]
pub(super) const PEOPLE: &[&str] = &[
    "agents", "everybody", "everyone", "i", "operators", "our team", "the agent", "the assistant", "the operator", "the team",
    "the user", "we", "we must", "we should", "you must", "you should",
];

/// Forms of a prohibition.
pub(super) const DO_NOT: &[&str] = &["do not", "don't", "dont"];
/// Adverbs that may come between subject and verb.
pub(super) const ADVERBS: &[&str] = &[
    "always",
    "first",
    "never",
    "normally",
    "only",
    "typically",
    "usually",
];
/// Adverbs that say that an action is customary.
pub(super) const CUSTOM_ADVERBS: &[&str] =
    &["generally", "normally", "often", "typically", "usually"];
/// Forms that state a preference.
pub(super) const PREFERENCE_PHRASES: &[&str] = &[
    "i'd prefer",
    "i'd rather",
    "prefer",
    "prefers",
    "we'd prefer",
    "we'd rather",
    "would prefer",
    "would rather",
];
/// Verbs of presentation and delivery: they say how a thing looks, or where it goes.
pub(super) const PRESENTATION_VERBS: &[&str] = &[
    "deliver", "display", "export", "format", "post", "present", "render", "save", "send", "share",
    "show", "write",
];

/// Fixed phrases that begin a command.
#[rustfmt::skip]
pub(super) const COMMANDS: &[&str] = &[
    "avoid", "be sure to", "don't forget to", "ensure", "ensure that", "make sure", "make sure that", "make sure to", "never forget to",
    "remember to", "stick to", "stop using",
];

/// Words that cannot be a command or prohibition: states, pronouns, forms of "be".
#[rustfmt::skip]
pub(super) const NOT_ACTIONS: &[&str] = &[
    "a", "again", "am", "an", "and", "anything", "are", "at", "been", "being", "better", "but", "can", "cannot", "can't", "could", "did",
    "easy", "ever", "for", "from", "good", "great", "had", "happy", "has", "have", "he", "i", "if", "i'll", "i'm", "in", "into", "is",
    "it", "it's", "liked", "loved", "may", "might", "mind", "more", "my", "nice", "not", "of", "on", "one", "or", "our", "she", "should",
    "so", "that", "the", "there", "they", "this", "to", "too", "true", "us", "want", "was", "we", "were", "we'll", "we're", "will", "with",
    "won't", "would", "you", "your",
];

/// Verbs after "don't" that make no rule: reassurances and states.
#[rustfmt::skip]
pub(super) const REASSURANCE_VERBS: &[&str] = &[
    "agree", "believe", "bother", "care", "feel", "forget", "get", "guess", "hesitate", "hope", "know", "like", "matter", "need", "panic", "recall", "remember", "see",
    "seem", "think", "understand", "wait", "worry",
];

/// Words that begin a definite object: one thing at hand rather than all of its kind.
pub(super) const DEFINITE_WORDS: &[&str] = &[
    "her", "him", "it", "me", "that", "the", "them", "these", "this", "those", "us",
];

/// Finite verbs of a statement of fact.
#[rustfmt::skip]
pub(super) const FINITE_VERBS: &[&str] = &[
    "am", "are", "aren't", "did", "does", "failed", "fails", "had", "has", "have", "is", "isn't", "needs", "passed", "passes", "takes",
    "took", "was", "wasn't", "went", "were", "will", "works", "would",
];

/// Words that may begin an object.
#[rustfmt::skip]
pub(super) const OBJECT_OPENERS: &[&str] = &[
    "a", "all", "an", "any", "both", "each", "every", "everything", "her", "him", "his", "it", "its", "me", "my", "new", "no", "old",
    "only", "our", "out", "some", "that", "the", "their", "them", "these", "this", "those", "to", "up", "us", "with", "your",
];

/// Words that are always, or nearly always, verbs.
#[rustfmt::skip]
pub(super) const VERBS: &[&str] = &[
    "add", "apply", "archive", "ask", "assign", "attach", "avoid", "begin", "bring", "choose", "clean", "close", "compare", "confirm",
    "convert", "create", "delete", "describe", "double-check", "ensure", "escalate", "exclude", "explain", "extract", "fetch", "fill",
    "find", "finish", "follow", "format", "generate", "get", "give", "ignore", "include", "inform", "keep", "leave", "let", "list", "load",
    "make", "mention", "merge", "move", "notify", "open", "pick", "prepare", "propose", "provide", "put", "quote", "raise", "read",
    "rebase", "remove", "rename", "replace", "respond", "restart", "retry", "round", "run", "save", "say", "schedule", "see", "send", "set",
    "show", "sign", "skip", "sort", "spell", "split", "start", "stop", "submit", "summarise", "summarize", "take", "tell", "translate",
    "treat", "try", "turn", "use", "validate", "verify", "wait", "write",
];

/// Words that are verbs or nouns: they count as verbs only before a word that begins an object.
#[rustfmt::skip]
pub(super) const NOUN_VERBS: &[&str] = &[
    "back", "block", "book", "build", "call", "check", "comment", "commit", "copy", "cut", "deploy", "document", "draft", "email", "export",
    "file", "fix", "flag", "group", "label", "limit", "link", "lock", "log", "mail", "mark", "name", "page", "paste", "ping", "plan", "post",
    "present", "print", "publish", "pull", "push", "query", "record", "refresh", "release", "reply", "report", "request", "reset", "review",
    "scan", "search", "share", "store", "tag", "test", "trim", "update", "wrap",
];

/// Past forms that do not end in "ed".
#[rustfmt::skip]
pub(super) const PAST_FORMS: &[&str] = &[
    "asked", "ate", "became", "began", "bought", "broke", "brought", "built", "called", "came", "caught", "chose", "did", "didn't", "drew",
    "drove", "ended", "fell", "felt", "fixed", "forgot", "found", "gave", "got", "grew", "had", "heard", "held", "kept", "knew", "led", "left",
    "lost", "made", "meant", "met", "moved", "paid", "ran", "said", "sat", "saw", "sent", "slept", "sold", "spent", "spoke", "stood", "taught",
    "thought", "told", "took", "tried", "understood", "used", "was", "went", "were", "won", "wore", "woke", "wrote",
];

/// Words after "use" that show it is a noun.
pub(super) const NAMED_USES: &[&str] = &["case", "cases", "of"];
