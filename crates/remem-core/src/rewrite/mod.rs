//! Rewriting: what a language model is asked when it may turn a deterministic text into better
//! prose, and what of its answer is taken. The model decides nothing: an answer that says more,
//! less or something else than its evidence is refused, and the deterministic text stands. Pure; it
//! may not call anybody.
//!
//! The rules compare words, not meanings: `words` reads sentences, `answer` reads the JSON,
//! `entail` holds one against the other. They refuse much that is true; what they let through uses
//! the words of one sentence of the evidence for each clause, with its numbers, names and negations
//! where that sentence has them.

mod answer;
mod entail;
mod prompt;
mod words;

#[cfg(test)]
mod tests;

pub use prompt::prompt;
use std::fmt;

/// A text that may be rewritten.
#[derive(Clone, PartialEq, Eq)]
pub struct Job {
    /// What the text was made of, in the order in which it is numbered for the model, from 1.
    pub evidence: Vec<Evidence>,
    /// The deterministic text, which stands unless a rewrite passes.
    pub plain: String,
    /// Words of a rewrite at the most.
    pub words_max: usize,
}

/// A text that a rewrite may rest on.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The id of the entry it comes from.
    pub source: String,
    /// The text.
    pub text: String,
}

/// Who speaks in a message to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host: what is to be done.
    System,
    /// The material.
    User,
}

impl Role {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
        }
    }
}

/// A message to the model.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// An answer that passed.
#[derive(Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The text, a line for each line of the answer.
    pub text: String,
    /// Each line with the sentences that carry it.
    pub diff: Vec<DiffLine>,
}

/// A line of a rewrite.
#[derive(Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// The line.
    pub text: String,
    /// The sentences of the evidence that carry it.
    pub spans: Vec<Span>,
}

/// A sentence of the evidence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The id of the entry.
    pub source: String,
    /// Where it begins in the evidence's text, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why an answer is not taken. Names a rule, never a text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refusal { $($(#[$doc])* $variant,)* }

        impl Refusal {
            /// Every reason.
            pub const ALL: &[Refusal] = &[$(Refusal::$variant,)*];

            /// The stable name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Refusal::$variant => $name,)* }
            }
        }
    };
}

refusals! {
    /// Not the JSON that was asked for.
    NotJson = "not_json",
    /// The JSON has a field that was not asked for.
    UnknownField = "unknown_field",
    /// No lines, or a line that says nothing.
    Empty = "empty",
    /// More words, lines or bytes than were asked for.
    TooLong = "too_long",
    /// A control character, or one that cannot be seen.
    ControlCharacter = "control_character",
    /// A line that names no evidence.
    NoEvidence = "no_evidence",
    /// A line that names evidence which does not exist.
    UnknownEvidence = "unknown_evidence",
    /// A number or date that the evidence does not have.
    InventedNumber = "invented_number",
    /// A name that the evidence does not have.
    InventedName = "invented_name",
    /// An identifier, address or abbreviation that the evidence does not have.
    InventedIdentifier = "invented_identifier",
    /// A word that the evidence does not have.
    InventedWord = "invented_word",
    /// A negation that the evidence does not have there.
    InventedNegation = "invented_negation",
    /// The evidence says no, the line does not.
    DroppedNegation = "dropped_negation",
    /// "May", "some", "wants to", "was", a question mark: what limits a statement came or went.
    ChangedQualifier = "changed_qualifier",
    /// The words of one clause come from several sentences.
    MixedSentences = "mixed_sentences",
    /// A name or number is not where the evidence has it.
    Rebound = "rebound",
}

/// Lines of an answer at the most.
const LINES_MAX: usize = 200;
/// Bytes of an answer for each word that it may have.
const WORD_BYTES: usize = 64;

/// Holds a model's answer against the evidence. The error names the first rule that it breaks.
pub fn check(job: &Job, answer: &str) -> Result<Rewrite, Refusal> {
    let lines = answer::parse(answer)?;
    let words: usize = lines
        .iter()
        .map(|line| line.text.split_whitespace().count())
        .sum();
    let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
    if lines.len() > LINES_MAX
        || words > job.words_max
        || bytes > job.words_max.saturating_mul(WORD_BYTES)
    {
        return Err(Refusal::TooLong);
    }
    let evidence: Vec<Vec<words::Sentence>> = job
        .evidence
        .iter()
        .map(|evidence| words::sentences(&evidence.text))
        .collect();
    let mut diff = Vec::with_capacity(lines.len());
    for line in lines {
        let cited = cited(&line.from, evidence.len())?;
        let sentences: Vec<(usize, &words::Sentence)> = cited
            .into_iter()
            .flat_map(|number| {
                evidence[number]
                    .iter()
                    .map(move |sentence| (number, sentence))
            })
            .collect();
        let mut spans: Vec<Span> = Vec::new();
        for (number, sentence) in entail::carriers(&line.text, &sentences)? {
            spans.push(Span {
                source: job.evidence[number].source.clone(),
                start: sentence.start,
                end: sentence.end,
            });
        }
        spans.sort();
        spans.dedup();
        diff.push(DiffLine {
            text: line.text,
            spans,
        });
    }
    let text = diff
        .iter()
        .map(|line| line.text.as_str())
        .collect::<Vec<_>>()
        .join("\n");
    Ok(Rewrite { text, diff })
}

/// The evidence that a line names, each once, counted from 0.
fn cited(from: &[u64], known: usize) -> Result<Vec<usize>, Refusal> {
    if from.is_empty() {
        return Err(Refusal::NoEvidence);
    }
    let mut numbers = Vec::with_capacity(from.len().min(known));
    for number in from {
        let number = usize::try_from(*number)
            .ok()
            .and_then(|number| number.checked_sub(1))
            .filter(|number| *number < known);
        let number = number.ok_or(Refusal::UnknownEvidence)?;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

// Memories are private: only sizes are printed.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Job({} texts, {} words at most)",
            self.evidence.len(),
            self.words_max
        )
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Message({}, {} bytes)",
            self.role.as_str(),
            self.content.len()
        )
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Rewrite({} lines, {} bytes)",
            self.diff.len(),
            self.text.len()
        )
    }
}
