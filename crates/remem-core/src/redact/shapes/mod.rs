//! Owns the search for text that has the shape of a credential. It reports ranges and kinds; it may
//! not replace, and it never reports text only because it looks random: a literal such as a key
//! prefix or a name such as `password` must come first.
//!
//! Cost: one pass for all those literals; a rule's own pattern runs only where its literal was
//! found.

mod checks;
mod input;
mod rules;
mod table;

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use zeroize::Zeroizing;

use super::scan::Scanner;
use crate::sabotage;
use input::ScanInput;
use table::{RULES, ShapeMatcher, ShapeRule};

/// Raised whenever a rule is added or changed, so that readers can tell which rules a text passed.
pub const SHAPES_VERSION: u32 = 1;

/// Bytes examined from a literal on; longer tokens are cut there.
const TOKEN_BYTES_MAX: usize = 4096;
/// Bytes from a literal on that decide whether a token begins there. All vendors' tokens are
/// recognisable within them. The limit bounds the cost of a text that consists only of literals.
const LOOKAHEAD_BYTES: usize = 128;

/// The kind of a secret shape, for example `github-token`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeKind(&'static str);

impl ShapeKind {
    /// The name as markers show it, after `shape-`.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// The kind with this name, if there is one.
    pub fn named(name: &str) -> Option<ShapeKind> {
        RULES
            .iter()
            .find(|rule| rule.kind == name)
            .map(|rule| ShapeKind(rule.kind))
    }
}

impl fmt::Debug for ShapeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for ShapeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Every kind with its one-line description, in the order in which rules are tried.
pub fn shape_table() -> impl Iterator<Item = (&'static str, &'static str)> {
    let first_of_kind = |(n, rule): &(usize, &ShapeRule)| {
        RULES[..*n].iter().all(|earlier| earlier.kind != rule.kind)
    };
    RULES
        .iter()
        .enumerate()
        .filter(first_of_kind)
        .map(|(_, rule)| (rule.kind, rule.doc))
}

/// A stretch of text with the shape of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShapeHit {
    pub(super) range: Range<usize>,
    pub(super) kind: ShapeKind,
}

struct CompiledRules {
    literals: Scanner<3, true>,
    /// The rule of each literal.
    rule_of: Vec<usize>,
    /// The pattern of each rule that has one.
    patterns: Vec<Option<Regex>>,
}

static COMPILED: LazyLock<CompiledRules> = LazyLock::new(|| {
    let rules = RULES.iter().enumerate();
    let literal =
        |(number, literal): (usize, &&str)| (number, Zeroizing::new(literal.as_bytes().to_vec()));
    let (rule_of, literals) = rules
        .flat_map(|(number, rule)| {
            rule.literals
                .iter()
                .map(move |text| literal((number, text)))
        })
        .unzip();
    let pattern = |rule: &ShapeRule| match rule.matcher {
        ShapeMatcher::Token { pattern, .. } => {
            Some(Regex::new(&format!(r"\A(?:{pattern})")).expect("a constant pattern compiles"))
        }
        ShapeMatcher::Custom(_) => None,
    };
    CompiledRules {
        literals: Scanner::new(literals),
        rule_of,
        patterns: RULES.iter().map(pattern).collect(),
    }
});

/// The shapes found in one text, and the cost of finding them.
pub(super) struct ShapeScan {
    /// All shapes, in order, none overlapping another.
    pub(super) hits: Vec<ShapeHit>,
    /// The number of bytes examined.
    pub(super) examined: usize,
}

/// Finds every secret shape in a text.
pub(super) fn find_shapes(text: &str) -> ShapeScan {
    let compiled = &*COMPILED;
    let input = ScanInput::new(text);
    let mut hits: Vec<(Range<usize>, usize)> = Vec::new();
    compiled
        .literals
        .each_match(text.as_bytes(), |literal, at| {
            // The latest few are enough: literals come roughly in order, and this only saves work.
            if hits
                .iter()
                .rev()
                .take(4)
                .any(|(range, _)| range.contains(&at.start))
            {
                return;
            }
            let rule = compiled.rule_of[literal];
            let range = match RULES[rule].matcher {
                ShapeMatcher::Token { accept, .. } => {
                    find_token(&input, at.start, compiled.patterns[rule].as_ref(), accept)
                }
                ShapeMatcher::Custom(find) => find(&input, at),
            };
            hits.extend(
                range
                    .filter(|range| !range.is_empty())
                    .map(|range| (range, rule)),
            );
        });
    let discord = RULES
        .iter()
        .position(|rule| rule.kind == "discord-token")
        .unwrap_or_default();
    hits.extend(rules::discord_tokens(text).map(|range| (range, discord)));
    // Of rules that agree on a range, the first in the table names it: vendors come before
    // `assignment`.
    hits.sort_by_key(|(range, rule)| (range.start, std::cmp::Reverse(range.end), *rule));
    hits.dedup_by(|later, earlier| {
        let overlap = later.0.start < earlier.0.end;
        if overlap {
            earlier.0.end = earlier.0.end.max(later.0.end);
        }
        overlap
    });
    let shape = |(range, rule): (Range<usize>, usize)| ShapeHit {
        range,
        kind: ShapeKind(RULES[rule].kind),
    };
    ShapeScan {
        hits: hits.into_iter().map(shape).collect(),
        examined: text.len() + input.examined(),
    }
}

/// The range of the token that begins at `start`, which must not lie inside a longer word.
fn find_token(
    input: &ScanInput<'_>,
    start: usize,
    pattern: Option<&Regex>,
    accept: fn(&str) -> bool,
) -> Option<Range<usize>> {
    let glued = input.text[..start]
        .bytes()
        .next_back()
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if glued {
        return None;
    }
    let secret_in = |bytes: usize| {
        let found = pattern?.captures(input.lookahead(start, bytes))?;
        let secret = found.get(1).or(found.get(0))?;
        input.count_examined(secret.end());
        Some(start + secret.start()..start + secret.end())
    };
    let look_bytes = sabotage!(
        "tokens-are-looked-at-to-their-end",
        LOOKAHEAD_BYTES,
        TOKEN_BYTES_MAX
    );
    let Some(short) = secret_in(look_bytes) else {
        // Only a token of several long parts, such as a web token, needs more text to be recognised
        // at all.
        return secret_in(TOKEN_BYTES_MAX).filter(|secret| accept(&input.text[secret.clone()]));
    };
    accept(&input.text[short.clone()]).then_some(())?;
    let is_cut = short.end == start + input.lookahead(start, LOOKAHEAD_BYTES).len();
    if is_cut {
        secret_in(TOKEN_BYTES_MAX)
    } else {
        Some(short)
    }
}

#[cfg(test)]
mod tests;
