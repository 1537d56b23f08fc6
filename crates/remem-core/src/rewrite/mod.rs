//! Owns rewriting: the prompt with which a language model may turn a deterministic text into better
//! prose, and the check of its answer. The model decides nothing: an answer that says more, less or
//! something else than its evidence is refused, and the deterministic text is used. Pure; the
//! caller calls the model.
//!
//! The rules compare words, not meanings: `words` reads sentences, `answer` reads the JSON,
//! `entail` compares one with the other. They refuse much that is true; an accepted answer uses the
//! words of one sentence of the evidence for each clause, with its numbers, names and negations
//! where that sentence has them.

mod answer;
mod entail;
mod prompt;
mod words;

#[cfg(test)]
mod tests;

pub use prompt::prompt;
use std::fmt;

/// A deterministic text to rewrite, with the evidence that a rewrite may use.
#[derive(Clone, PartialEq, Eq)]
pub struct RewriteJob {
    /// The texts that the deterministic text was made of, in the order in which they are numbered
    /// for the model, from 1.
    pub evidence: Vec<Evidence>,
    /// The deterministic text, which is used unless a rewrite passes the check.
    pub plain_text: String,
    /// The most words that a rewrite may have.
    pub words_max: usize,
}

/// A text that a rewrite may cite.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The id of the entry it comes from.
    pub source: String,
    pub text: String,
}

/// The author of a message to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The host: the message is the task.
    System,
    /// The material to work on, which is data and never an instruction.
    User,
}

impl Role {
    /// The name that requests to models use.
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
    pub role: Role,
    pub content: String,
}

/// A rewrite that passed the check.
#[derive(Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The text, a line for each line of the answer.
    pub text: String,
    /// Each line with the sentences that support it.
    pub diff: Vec<DiffLine>,
}

/// A line of a rewrite, with its support.
#[derive(Clone, PartialEq, Eq)]
pub struct DiffLine {
    pub text: String,
    /// The sentences of the evidence that support the line.
    pub spans: Vec<EvidenceSpan>,
}

/// The range of a sentence in a text of the evidence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvidenceSpan {
    /// The id of the entry that the evidence comes from.
    pub source: String,
    /// The byte offset in the evidence's text at which the sentence begins.
    pub start: usize,
    /// The byte offset at which the sentence ends.
    pub end: usize,
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The reason why an answer is refused. It names a rule, never a text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refusal { $($(#[$doc])* $variant,)* }

        impl Refusal {
            /// All reasons in the order of their declaration.
            pub const ALL: &[Refusal] = &[$(Refusal::$variant,)*];

            /// The name of the rule in reports and logs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Refusal::$variant => $name,)* }
            }
        }
    };
}

refusals! {
    /// The answer is not JSON of the form that was asked for.
    NotJson = "not_json",
    /// The JSON has a field that was not asked for.
    UnknownField = "unknown_field",
    /// No lines, or a line without a content word.
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
    /// A word that limits a statement was added or dropped: "may", "some", "wants to", "was", a
    /// question mark.
    ChangedQualifier = "changed_qualifier",
    /// The words of one clause come from several sentences.
    MixedSentences = "mixed_sentences",
    /// A name or number is not where the evidence has it.
    Rebound = "rebound",
}

/// The most lines that an answer may have.
const LINES_MAX: usize = 200;
/// The most bytes of an answer, for each word that it may have.
const WORD_BYTES_MAX: usize = 64;

/// Checks a model's answer against the evidence. The error names the first rule that it breaks.
pub fn check_answer(job: &RewriteJob, answer: &str) -> Result<Rewrite, Refusal> {
    let lines = answer::parse(answer)?;
    let words: usize = lines
        .iter()
        .map(|line| line.text.split_whitespace().count())
        .sum();
    let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
    if lines.len() > LINES_MAX
        || words > job.words_max
        || bytes > job.words_max.saturating_mul(WORD_BYTES_MAX)
    {
        return Err(Refusal::TooLong);
    }
    let evidence: Vec<Vec<words::EvidenceSentence>> = job
        .evidence
        .iter()
        .map(|evidence| words::sentences(&evidence.text))
        .collect();
    let mut diff = Vec::with_capacity(lines.len());
    for line in lines {
        let cited = cited_evidence(&line.from, evidence.len())?;
        let sentences: Vec<(usize, &words::EvidenceSentence)> = cited
            .into_iter()
            .flat_map(|number| {
                evidence[number]
                    .iter()
                    .map(move |sentence| (number, sentence))
            })
            .collect();
        let mut spans: Vec<EvidenceSpan> = Vec::new();
        for (number, sentence) in entail::supporting_sentences(&line.text, &sentences)? {
            spans.push(EvidenceSpan {
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

/// The evidence that a line cites, each once, counted from 0.
fn cited_evidence(from: &[u64], known: usize) -> Result<Vec<usize>, Refusal> {
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
impl fmt::Debug for RewriteJob {
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
