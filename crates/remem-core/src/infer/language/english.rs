//! language::english: the words of the rules for English: the words that ask, promise, deny, report
//! and doubt. Data only.

use super::{CueWords, Language, ModifierWords, first_words_pattern};
use std::sync::LazyLock;

pub(crate) static ENGLISH: Language = Language {
    cues: CUES,
    modifiers: MOODS,
    states: super::english_states::STATES,
    times: super::english_times::TIMES,
    abbreviations: ABBREVIATIONS,
    first_words: LazyLock::new(|| {
        first_words_pattern(&[
            CUES.requests,
            CUES.tasks,
            CUES.noun_tasks,
            CUES.passive,
            CUES.labels,
            CUES.promises,
            CUES.pledges,
            CUES.needs,
            CUES.passive_needs,
        ])
    }),
};

#[rustfmt::skip]
const ABBREVIATIONS: &[&str] = &[
    "a.m", "approx", "apr", "aug", "co", "dec", "dr", "e.g", "etc", "feb", "fri", "i.e", "inc", "jan", "jul", "jun", "ltd", "mar",
    "mon", "mr", "mrs", "ms", "no", "nov", "oct", "p.m", "prof", "sep", "sept", "st", "thu", "tue", "vs", "wed",
];

#[rustfmt::skip]
const CUES: CueWords = CueWords {
    requests: &[
        "remind me", "remind us", "remind them", "remind him", "remind her", "let me know", "let us know", "notify me", "notify us",
        "notify them", "tell me", "tell us", "tell them", "alert me", "alert us", "alert them", "ping me", "ping us", "ping them",
        "don't forget to", "dont forget to", "do not forget to", "remember to", "set a reminder", "set me a reminder",
        "set an alarm", "get back to me", "get back to us", "don't let me forget", "wake me", "nudge me", "nudge us", "text me",
        "message me", "email me",
    ],
    tasks: &[
        "follow up", "check back", "circle back", "get back to", "revisit", "escalate", "send", "renew", "check in with",
        "reach out to", "touch base", "submit", "cancel",
        "make sure to", "be sure to",
    ],
    noun_tasks: &["pay", "ping", "schedule", "review", "call", "email", "file"],
    passive: &[
        "wants to be reminded", "want to be reminded", "asked to be reminded", "asks to be reminded", "like to be reminded",
        "wants to be notified", "want to be notified", "asked to be notified", "asks to be notified", "like to be notified",
        "wants to be told", "want to be told", "asked to be told", "like to be told", "wants to be alerted", "want to be alerted",
        "asked to be alerted", "like to be alerted", "wants a reminder", "want a reminder", "asked for a reminder",
        "asked me to remind", "asked us to remind", "asks me to remind", "wants me to remind", "want me to remind", "asked to remind",
    ],
    labels: &["reminder", "todo", "to-do", "action item", "follow-up"],
    promises: &[
        "i'll", "we'll", "i will", "we will", "i'm going to", "i am going to", "we're going to", "we are going to", "i promise to",
        "we promise to", "i promised to", "we promised to", "i agreed to", "we agreed to", "i commit to", "we commit to",
        "i promise i'll", "i shall", "we shall",
    ],
    pledges: &["needs to", "has to", "promised to", "promises to", "agreed to", "committed to", "pledged to"],
    needs: &[
        "i need to", "we need to", "you need to", "i have to", "we have to", "you have to", "i must", "we must", "i've got to",
        "we've got to", "i gotta", "we gotta", "gotta", "i'll need to", "i'll have to", "we'll need to", "we'll have to",
        "you'll need to", "you'll have to", "need to", "have to",
    ],
    passive_needs: &["needs to be", "need to be", "has to be", "have to be", "must be"],
    non_actions: &[
        "admit", "agree", "always", "assume", "be", "become", "believe", "confess", "definitely", "enjoy", "feel", "get", "guess",
        "have", "hate", "hope", "keep", "know", "like", "love", "miss", "need", "never", "remain", "say", "see", "seem", "sleep",
        "stay", "still", "suppose", "think", "turn", "understand", "want", "wish", "wonder", "remember", "live", "look", "die",
        "forget", "continue", "end", "relax", "learn", "grow", "win", "lose", "begin", "cherish", "treasure", "experience",
        "wait", "watch", "hear", "use", "spend", "try", "focus", "celebrate",
    ],
    awaited_verbs: &[
        "add", "answer", "arrange", "ask", "book", "bring", "buy", "call", "cancel", "check", "circle", "clean", "collect", "complete",
        "confirm", "contact", "create", "deliver", "deploy", "draft", "email", "escalate", "file", "finalise", "finalize", "finish",
        "fix", "follow", "forward", "handle", "inform", "install", "invite", "invoice", "let", "mail", "merge", "message", "migrate",
        "notify", "order", "organise", "organize", "pay", "phone", "pick", "ping", "post", "prepare", "present", "provide",
        "publish", "push", "refund", "register", "release", "remind", "renew", "reply", "report", "reserve", "respond", "return",
        "review", "revisit", "rotate", "schedule", "send", "set", "share", "ship", "sign", "submit", "tell", "text", "transfer",
        "update", "upgrade", "upload", "write",
    ],
    question_words: &["who", "what", "why", "how", "where", "which", "whether"],
    promise_nouns: &["reminder", "reminders", "alarm", "alarms"],
    false_continuations: &["of how", "of when", "of the time", "of what it"],
};

#[rustfmt::skip]
const MOODS: ModifierWords = ModifierWords {
    openers: &[
        "can you", "could you", "would you", "will you", "can u", "could u", "would u", "can someone", "could someone", "can somebody", "need you to",
        "want you to", "like you to", "ask you to", "asking you to", "you should", "you must", "you have to", "you need to", "if you can",
        "if you could", "would you mind", "i'd appreciate if you", "make sure you", "let's",
    ],
    fillers: &[
        "please", "pls", "just", "also", "kindly", "then", "so", "ok", "okay", "hey", "hi", "hello", "yes", "yeah", "well", "now",
        "sure", "great", "thanks", "alright", "always", "oh", "btw", "fyi", "only", "agent", "assistant", "again", "first",
        "definitely", "certainly", "gladly", "quickly", "personally", "probably",
    ],
    conjunctions: &["and", "then", "or"],
    clause_openers: &["but", "however", "though", "although", "because", "whereas", "so", "while"],
    negations: &[
        "not", "never", "no", "cannot", "without", "nobody", "none", "neither", "nor", "stop", "dont", "wont", "cant", "didnt",
        "refuse", "refused", "unable", "instead", "rather", "avoid", "unnecessary", "hardly", "wish",
    ],
    negated_ending: "n't",
    past: &["yesterday", "ago", "already", "earlier", "previously", "formerly", "last"],
    reports: &[
        "said", "says", "say", "told", "asked", "asks", "wrote", "writes", "mentioned", "claimed", "claims", "thought", "thinks",
        "quoted", "suggested", "wondered", "wonders", "joked", "complained", "explained", "imagined", "dreamed", "titled", "lyrics",
        "sings", "reads", "saying", "asking", "telling",
    ],
    doubts: &[
        "maybe", "perhaps", "probably", "possibly", "might", "hopefully", "think", "guess", "suppose", "hope", "try", "trying",
        "tentatively", "perchance", "hoping", "presumably", "someday", "eventually", "unless",
    ],
    embedding_words: &[
        "if", "whether", "when", "how", "why", "what", "where", "which", "who", "unless", "until", "till", "before", "after",
        "wherever", "whatever", "whenever", "that", "do", "did", "does", "didn't", "don't", "than", "things", "everything",
        "all", "would", "might", "may", "could", "should", "used", "had", "not", "cause", "because", "time", "once", "day",
    ],
    speakers: &["i", "we", "i've", "we've", "i'd", "i'm"],
    subjects: &[
        "i", "we", "you", "he", "she", "they", "it", "who", "that", "which", "this", "these", "those", "everyone", "somebody",
        "someone", "nobody", "people", "i've", "we've", "they've", "you've", "i'm", "you're", "they're", "he's", "she's", "it's",
        "i'd", "you'd", "they'd", "we'd",
    ],
    articles: &["the", "a", "an", "my", "our", "your", "his", "her", "their", "its", "this", "that", "each", "one"],
    indefinite_articles: &["a", "an"],
    objects: &[
        "the", "a", "an", "this", "that", "these", "those", "my", "our", "your", "his", "her", "their", "its", "it", "them", "him",
        "me", "us", "all", "any", "both", "everyone", "another", "some",
    ],
    function_words: &[
        "about", "after", "again", "also", "and", "around", "as", "at", "before", "between", "but", "by", "during", "for", "from",
        "i", "i'll", "if", "in", "instead", "into", "is", "it", "latest", "let", "morning", "afternoon", "evening", "night", "noon",
        "eod", "of", "on", "once", "only", "or", "please", "pls", "regarding", "remind", "sharp", "she", "so", "starting", "tell",
        "that", "the", "then", "they", "thanks", "to", "today", "tomorrow", "tonight", "until", "via", "we", "we'll", "week", "when",
        "with", "without", "you", "he", "ping", "notify", "alert", "he'll", "my", "his", "her", "our", "your", "their", "a", "an",
        "this", "next", "utc", "gmt", "unless", "because", "even", "every", "sometime", "first", "midnight", "midday", "first",
        "there", "not", "while", "till", "too", "using", "anyway", "though", "time", "send", "follow", "call", "review", "check",
        "email", "submit", "renew", "be", "am", "pm", "a.m", "p.m", "each", "plus", "since", "right", "or", "under", "over", "up",
    ],
};
