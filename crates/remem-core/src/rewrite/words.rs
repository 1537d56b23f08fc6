//! Owns the reading of a text as sentences of classified words. English; in other languages nearly
//! every word counts as content, which only makes the check stricter.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The role of a word in its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordKind {
    /// A function word, which a rewrite may add or drop freely.
    Function,
    /// A word that negates, such as "not" or "without".
    Negator,
    /// A word that limits a statement: "may", "some", "wants", a question mark.
    Qualifier,
    /// A number, date or part of one.
    Number,
    /// A machine-readable name or an abbreviation; compared letter by letter.
    Identifier,
    /// Any other word with a meaning of its own.
    Word,
}

/// A word of a sentence with the form by which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WordToken {
    pub kind: WordKind,
    /// The form that is compared: stemmed for most words, verbatim for identifiers.
    pub key: String,
    /// The word in lower case, without a possessive ending.
    pub lower: String,
    /// Whether the word begins with a capital letter.
    pub is_capitalised: bool,
    /// Whether the word is the first of its sentence, where a capital letter means nothing.
    pub is_first: bool,
}

impl WordToken {
    /// Whether the word has a meaning of its own.
    pub fn is_content(&self) -> bool {
        !matches!(self.kind, WordKind::Function | WordKind::Negator) && self.key != "?"
    }

    /// Whether the word is a name, number or identifier, which must stay where the evidence has it.
    pub fn is_special(&self) -> bool {
        matches!(self.kind, WordKind::Number | WordKind::Identifier)
            || self.kind == WordKind::Word && self.is_capitalised
    }

    /// Whether the word is part of a date rather than of an amount.
    pub fn is_date(&self) -> bool {
        let shape: String = self
            .lower
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        self.kind == WordKind::Number
            && (DATES.contains(self.lower.as_str()) || shape == "0000-00-00")
    }

    /// Whether `other`, a word of the evidence, is the same word as this one.
    pub fn is_same_word(&self, other: &WordToken) -> bool {
        let name = self.kind == WordKind::Word && self.is_capitalised && !self.is_first;
        self.kind == other.kind
            && self.key == other.key
            && (!name || other.is_capitalised && self.lower == other.lower)
    }
}

/// A sentence: its range in its text, in bytes, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EvidenceSentence {
    pub start: usize,
    pub end: usize,
    pub tokens: Vec<WordToken>,
}

static NEGATORS: WordSet = LazyLock::new(|| {
    "not no never none nobody nothing nowhere neither nor without hardly barely rarely seldom"
        .split_whitespace()
        .collect()
});
static FUNCTION_WORDS: WordSet = LazyLock::new(|| {
    "a an the this that these those it its he she they them his her hers their theirs him we us our ours you your \
    yours i me my mine who whom whose which is are am be been being has have having do does did of in on at to from by for with as \
    into onto and but while whereas also too there here s ; &"
        .split_whitespace()
        .collect()
});
/// Words that make a statement less than a plain one. Verbs of wishing, attempting and opinion are
/// among them.
static QUALIFIERS: WordSet = LazyLock::new(|| {
    "may might can could will would shall should must ought or if unless when whenever because so therefore thus \
    hence although though despite instead except only just some any most many few several all every each both either half always \
    often sometimes usually mostly occasionally maybe perhaps probably possibly likely allegedly apparently supposedly almost nearly \
    about approximately roughly around circa least more less than under over below above up down before after until till since during \
    once again still yet already soon later now then was were had former formerly previously ago used ? \
    want wants wanted plan plans planned planning hope hopes hoped wish wishes wished intend intends intended consider considers \
    considered considering try tries tried trying attempt attempts attempted fail fails failed failing refuse refuses refused stop \
    stops stopped quit quits deny denies denied avoid avoids avoided claim claims claimed say says said tell tells told think thinks \
    thought believe believes believed suspect suspects suspected doubt doubts doubted pretend pretends pretended forget forgets \
    forgot expect expects expected propose proposes proposed suggest suggests suggested ask asks asked promise promises promised \
    dream dreams dreamed cancel cancels cancelled canceled supposed false wrong fake rumoured rumored"
        .split_whitespace()
        .collect()
});
static NUMBERS: WordSet = LazyLock::new(|| {
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen \
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen first second third \
    fourth fifth sixth seventh eighth ninth tenth twice thrice today tomorrow yesterday tonight"
        .split_whitespace()
        .collect()
});
static DATES: WordSet = LazyLock::new(|| {
    "january february march april may june july august september october november december monday tuesday wednesday \
    thursday friday saturday sunday jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun"
        .split_whitespace()
        .collect()
});

/// A list of words, read on first use.
type WordSet = LazyLock<HashSet<&'static str>>;

/// Whether a character is not allowed in a line: control characters, and those that hide or reorder
/// others.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The sentences of a text that have words. A sentence ends at a closing mark before white space,
/// and at any hidden character.
pub(super) fn sentences(text: &str) -> Vec<EvidenceSentence> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut ended = false;
    for (at, c) in text.char_indices() {
        if is_hidden(c) || ended && c.is_whitespace() {
            add_sentence(&mut found, text, start, at);
            start = at + c.len_utf8();
        }
        // A quotation mark or bracket may follow the stop.
        ended = matches!(c, '.' | '!' | '?' | '…' | '。')
            || ended && matches!(c, '"' | '\'' | ')' | ']' | '”' | '’');
    }
    add_sentence(&mut found, text, start, text.len());
    found
}

/// Adds the sentence between two offsets, if it has more than function words.
fn add_sentence(found: &mut Vec<EvidenceSentence>, text: &str, start: usize, end: usize) {
    let inside = &text[start..end];
    let trimmed = inside.trim();
    let start = start + (inside.len() - inside.trim_start().len());
    let tokens = tokens(trimmed);
    if tokens.iter().any(|token| token.kind != WordKind::Function) {
        found.push(EvidenceSentence {
            start,
            end: start + trimmed.len(),
            tokens,
        });
    }
}

/// The words of one sentence.
fn tokens(sentence: &str) -> Vec<WordToken> {
    let chars: Vec<char> = sentence.chars().collect();
    let mut found: Vec<WordToken> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let end = chunk_end(&chars, at);
        if end > at {
            let chunk: String = chars[at..end].iter().collect();
            push_words(&chunk, &mut found);
            at = end;
            continue;
        }
        if !chars[at].is_whitespace() && !is_plain_punctuation(chars[at]) {
            push_word(&chars[at].to_string(), &mut found);
        }
        at += 1;
    }
    found
}

/// Whether a character is punctuation without a meaning of its own.
fn is_plain_punctuation(c: char) -> bool {
    ".,:!()[]\"'*`•…“”‘’„«»–—-/".contains(c)
}

/// The end of the run of letters and digits that begins at `start`: with signs and currencies in
/// front, units behind, and joints inside. It is `start` if none begins there.
fn chunk_end(chars: &[char], start: usize) -> usize {
    let is = |at: usize, test: fn(char) -> bool| chars.get(at).copied().is_some_and(test);
    let digit: fn(char) -> bool = char::is_numeric;
    let mut at = start;
    let free = start == 0 || !is(start - 1, char::is_alphanumeric);
    if free
        && is(at, |c| "+-−".contains(c))
        && (is(at + 1, digit) || is(at + 1, |c| "$€£¥".contains(c)) && is(at + 2, digit))
    {
        at += 1;
    }
    if is(at, |c| "$€£¥#".contains(c)) && is(at + 1, char::is_alphanumeric)
        || is(at, |c| c == '.') && free && is(at + 1, digit)
    {
        at += 1;
    }
    if !is(at, char::is_alphanumeric) {
        return start;
    }
    loop {
        while is(at, |c| c.is_alphanumeric() || c == '_') {
            at += 1;
        }
        let comma = is(at, |c| c == ',') && is(at - 1, digit) && is(at + 1, digit);
        if comma
            || is(at, |c| "'’-./:@\\".contains(c))
                && is(at + 1, |c| c.is_alphanumeric() || c == '_')
        {
            at += 1;
        } else {
            break;
        }
    }
    if is(at, |c| "%°‰".contains(c)) {
        at + 1
    } else {
        at
    }
}

/// Adds the words of a chunk: one if it is a number, address or identifier, else one for each part
/// between hyphens.
fn push_words(chunk: &str, found: &mut Vec<WordToken>) {
    let joined = chunk.contains(|c: char| c.is_numeric() || "_./:@\\$€£¥#%°‰".contains(c));
    if joined {
        push_word(chunk, found);
    } else {
        chunk.split('-').for_each(|word| push_word(word, found));
    }
}

/// Classifies a word and adds it.
fn push_word(word: &str, found: &mut Vec<WordToken>) {
    let small = word.to_lowercase().replace('’', "'");
    let lower = small.strip_suffix("'s").unwrap_or(&small).to_owned();
    let capital = word.chars().next().is_some_and(char::is_uppercase);
    let initial = found.is_empty();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    let shouted = letters > 1 && !word.chars().any(char::is_lowercase);
    let inner_capital = word.chars().skip(1).any(char::is_uppercase);
    let name = capital && !initial && !shouted;
    let digits = word.starts_with(|c: char| c.is_numeric() || "+-−.$€£¥".contains(c));
    let (kind, key) = if NEGATORS.contains(lower.as_str()) {
        (WordKind::Negator, lower.clone())
    } else if lower.ends_with("n't") || lower == "cannot" {
        (WordKind::Negator, "not".to_owned())
    } else if digits
        || NUMBERS.contains(lower.as_str())
        || capital && (name || lower != "may") && DATES.contains(lower.as_str())
    {
        (WordKind::Number, lower.clone())
    } else if !name && QUALIFIERS.contains(lower.as_str()) {
        (WordKind::Qualifier, qualifier(&lower))
    } else if word.contains(|c: char| c.is_numeric() || "_./:@\\$€£¥#".contains(c))
        || letters > 1 && inner_capital
    {
        (WordKind::Identifier, word.to_owned())
    } else if FUNCTION_WORDS.contains(lower.as_str()) {
        (WordKind::Function, lower.clone())
    } else {
        (WordKind::Word, stem(&lower))
    };
    found.push(WordToken {
        kind,
        key,
        lower,
        is_capitalised: capital,
        is_first: initial,
    });
}

/// The key by which the forms of a qualifier compare equal.
fn qualifier(lower: &str) -> String {
    match lower {
        "was" | "were" => "was".to_owned(),
        short if short.len() <= 3 => short.to_owned(),
        other => stem(other),
    }
}

/// A word without its ending: plural and continuous forms compare equal. Past forms do not: "will
/// pay" is not "paid".
fn stem(lower: &str) -> String {
    let mut stem = lower.to_owned();
    if stem.len() > 4 && stem.ends_with("ies") {
        stem.truncate(stem.len() - 3);
        stem.push('y');
    } else if ["sses", "shes", "ches", "xes", "zes"]
        .iter()
        .any(|ending| stem.ends_with(ending))
    {
        stem.truncate(stem.len() - 2);
    } else if stem.len() > 3
        && stem.ends_with('s')
        && !["ss", "us", "is"]
            .iter()
            .any(|ending| stem.ends_with(ending))
    {
        stem.truncate(stem.len() - 1);
    }
    let rest = stem.strip_suffix("ing").unwrap_or_default();
    if rest.len() > 2 && rest.contains(['a', 'e', 'i', 'o', 'u', 'y']) {
        stem.truncate(rest.len());
    }
    if stem.len() > 3 && stem.ends_with('i') {
        stem.truncate(stem.len() - 1);
        stem.push('y');
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.truncate(stem.len() - 1);
    }
    let twice = stem.chars().rev().take(2).collect::<Vec<_>>();
    if stem.len() > 3
        && twice.first() == twice.get(1)
        && twice
            .first()
            .is_some_and(|c| c.is_ascii_alphabetic() && !"aeiou".contains(*c))
    {
        stem.pop();
    }
    stem
}
