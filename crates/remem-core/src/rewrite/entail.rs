//! Owns the check whether a line follows from the sentences that it cites. Every clause has to be
//! supported by one sentence: its words are that sentence's words, it negates exactly where the
//! sentence does, and names and numbers keep their neighbours.

use super::Refusal;
use super::words::{EvidenceSentence, WordKind, WordToken, sentences};
use crate::sabotage;

/// The cited sentences that support a line, each with the number of its evidence. Fails with the
/// first rule that a clause of the line breaks.
pub(super) fn supporting_sentences<'a>(
    line: &str,
    cited: &[(usize, &'a EvidenceSentence)],
) -> Result<Vec<(usize, &'a EvidenceSentence)>, Refusal> {
    let line_sentences = sentences(line);
    if !line_sentences
        .iter()
        .any(|sentence| sentence.tokens.iter().any(WordToken::is_content))
    {
        return Err(Refusal::Empty);
    }
    let mut found = Vec::new();
    for sentence in &line_sentences {
        sabotage!(
            "a-model-may-invent-words",
            check_known_words(&sentence.tokens, cited)?
        );
        if let Ok(carrier) = supporting_sentence(&sentence.tokens, cited) {
            found.push(carrier);
            continue;
        }
        for clause in clauses(&sentence.tokens) {
            found.push(supporting_sentence(clause, cited)?);
        }
    }
    Ok(found)
}

/// Checks that every word of a line occurs in some cited sentence.
fn check_known_words(
    tokens: &[WordToken],
    cited: &[(usize, &EvidenceSentence)],
) -> Result<(), Refusal> {
    for token in tokens
        .iter()
        .filter(|token| token.kind != WordKind::Function)
    {
        if cited.iter().any(|(_, sentence)| {
            sentence
                .tokens
                .iter()
                .any(|other| token.is_same_word(other))
        }) {
            continue;
        }
        return Err(match token.kind {
            WordKind::Number => Refusal::InventedNumber,
            WordKind::Identifier => Refusal::InventedIdentifier,
            WordKind::Negator => Refusal::InventedNegation,
            WordKind::Word if token.is_capitalised => Refusal::InventedName,
            WordKind::Qualifier => Refusal::ChangedQualifier,
            WordKind::Word | WordKind::Function => Refusal::InventedWord,
        });
    }
    Ok(())
}

/// The first cited sentence that supports all the tokens; otherwise the reason why the closest one
/// does not.
fn supporting_sentence<'a>(
    tokens: &[WordToken],
    cited: &[(usize, &'a EvidenceSentence)],
) -> Result<(usize, &'a EvidenceSentence), Refusal> {
    let mut why = Refusal::MixedSentences;
    for (number, sentence) in cited {
        match check_support(&sentence.tokens, tokens) {
            Ok(()) => return Ok((*number, sentence)),
            Err(Refusal::MixedSentences) => {}
            Err(closer) => why = closer,
        }
    }
    Err(why)
}

/// Splits a sentence into its independent clauses. One with a single content word belongs to its
/// neighbour: "Ann and Ben pay" says something of both.
fn clauses(tokens: &[WordToken]) -> Vec<&[WordToken]> {
    let content = |tokens: &[WordToken]| tokens.iter().filter(|token| token.is_content()).count();
    let mut found = Vec::new();
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        let joint = token.kind == WordKind::Function
            && ["and", "but", "while", "whereas", ";"].contains(&token.key.as_str());
        if joint && content(&tokens[start..at]) > 1 && content(&tokens[at..]) > 1 {
            found.push(&tokens[start..at]);
            start = at + 1;
        }
    }
    found.push(&tokens[start..]);
    found
}

/// Checks one clause against one sentence: words, negations, qualifiers, then the position and
/// order of names and numbers.
fn check_support(sentence: &[WordToken], claim: &[WordToken]) -> Result<(), Refusal> {
    let covered = claim
        .iter()
        .filter(|token| token.is_content())
        .all(|token| sentence.iter().any(|other| token.is_same_word(other)));
    if !covered {
        return Err(Refusal::MixedSentences);
    }
    let denied = denials(sentence);
    let denies = denials(claim);
    if sabotage!("a-model-may-drop-a-not", denied.len() > denies.len(), false) {
        return Err(Refusal::DroppedNegation);
    }
    if denied != denies {
        return Err(Refusal::InventedNegation);
    }
    if qualifiers(sentence) != qualifiers(claim) {
        return Err(Refusal::ChangedQualifier);
    }
    let dated = is_dated(sentence);
    if sabotage!(
        "a-model-may-swap-numbers",
        keeps_neighbours(sentence, claim, dated) && keeps_order(sentence, claim, dated),
        true
    ) {
        Ok(())
    } else {
        Err(Refusal::Rebound)
    }
}

/// Whether the only numbers of a sentence are one date, and it has one clause: then the date holds
/// for all of it, and may come at either end.
fn is_dated(sentence: &[WordToken]) -> bool {
    let content = content_tokens(sentence);
    let is_number = |at: usize| content[at].kind == WordKind::Number;
    let groups = (0..content.len())
        .filter(|at| is_number(*at) && (*at == 0 || !is_number(at - 1)))
        .count();
    groups == 1 && content.iter().any(|token| token.is_date()) && clauses(sentence).len() == 1
}

/// The negations of a sentence, each with the word that it denies, sorted.
fn denials(tokens: &[WordToken]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, token) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.kind == WordKind::Negator)
    {
        let after = tokens[at + 1..].iter().find(|token| token.is_content());
        let denied = after.or_else(|| tokens[..at].iter().rev().find(|token| token.is_content()));
        found.push((
            token.key.as_str(),
            denied.map_or("", |token| token.key.as_str()),
        ));
    }
    found.sort_unstable();
    found
}

/// The qualifiers of a sentence, each once, sorted.
fn qualifiers(tokens: &[WordToken]) -> Vec<&str> {
    let mut found: Vec<&str> = tokens
        .iter()
        .filter(|token| token.kind == WordKind::Qualifier)
        .map(|token| token.key.as_str())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The tokens that have a meaning of their own.
fn content_tokens(tokens: &[WordToken]) -> Vec<&WordToken> {
    tokens.iter().filter(|token| token.is_content()).collect()
}

/// Whether every name and number of a clause has a neighbour that it also has in the sentence, on
/// the same side.
fn keeps_neighbours(sentence: &[WordToken], claim: &[WordToken], dated: bool) -> bool {
    let sentence = content_tokens(sentence);
    let claim = content_tokens(claim);
    let placed = |at: usize| {
        (0..sentence.len()).any(|other| {
            claim[at].is_same_word(sentence[other])
                && shares_neighbour(
                    TokenPosition {
                        tokens: &sentence,
                        at: other,
                    },
                    TokenPosition { tokens: &claim, at },
                    dated,
                )
        })
    };
    (0..claim.len())
        .filter(|at| claim[*at].is_special())
        .all(placed)
}

/// A token among those of a sentence or a clause.
struct TokenPosition<'a> {
    tokens: &'a [&'a WordToken],
    at: usize,
}

/// Whether a token of a clause and its equal in the sentence share a neighbour on the same side.
fn shares_neighbour(
    in_sentence: TokenPosition<'_>,
    in_claim: TokenPosition<'_>,
    dated: bool,
) -> bool {
    let TokenPosition {
        tokens: sentence,
        at: there,
    } = in_sentence;
    let TokenPosition {
        tokens: claim,
        at: here,
    } = in_claim;
    let next_there = sentence.get(there + 1);
    let next_here = claim.get(here + 1);
    // The word after a number is what it counts, so it must be the same.
    if claim[here].kind == WordKind::Number
        && !dated
        && next_there.is_some_and(|next| next.kind == WordKind::Word && !next.is_capitalised)
    {
        return next_here
            .is_some_and(|next| next.key == next_there.map_or("", |next| next.key.as_str()));
    }
    let meet = |one: &[&WordToken], other: &[&WordToken]| {
        one.iter()
            .any(|token| other.iter().any(|other| token.key == other.key))
    };
    let after = |tokens: &[&WordToken], at: usize, reach: usize| -> std::ops::Range<usize> {
        at + 1..(at + 1 + reach).min(tokens.len())
    };
    let reach = if claim[here].kind == WordKind::Number {
        1
    } else {
        2
    };
    sentence.len() == 1
        || meet(
            &claim[after(claim, here, reach)],
            &sentence[after(sentence, there, reach)],
        )
        || meet(
            &claim[here.saturating_sub(reach)..here],
            &sentence[there.saturating_sub(reach)..there],
        )
}

/// Whether names follow each other as they do in the sentence and numbers come in its order; and,
/// if the sentence has several names, whether each number stays with its own.
fn keeps_order(sentence: &[WordToken], claim: &[WordToken], dated: bool) -> bool {
    let specials = |tokens: &[WordToken]| -> Vec<(String, bool)> {
        let special = tokens.iter().filter(|token| token.is_special());
        special
            .map(|token| (token.key.clone(), token.kind == WordKind::Number))
            .collect()
    };
    let there = specials(sentence);
    // The first word of a line may be capitalised only because of its position, so it is not a
    // name.
    let here: Vec<_> = specials(claim)
        .into_iter()
        .filter(|special| there.contains(special))
        .collect();
    let of = |list: &[(String, bool)], number: bool| -> Vec<(String, bool)> {
        list.iter()
            .filter(|special| special.1 == number)
            .cloned()
            .collect()
    };
    let next_to = |pair: &[(String, bool)], list: &[(String, bool)]| {
        list.windows(2).any(|window| window == pair)
    };
    let names = of(&there, false);
    let several = names.iter().any(|name| *name != names[0]);
    let names_follow = of(&here, false)
        .windows(2)
        .all(|pair| next_to(pair, &names));
    let mut rest = of(&there, true).into_iter();
    let numbers_follow = of(&here, true)
        .iter()
        .all(|number| rest.any(|other| other == *number));
    let together = dated
        || !several
        || here
            .windows(2)
            .filter(|pair| pair[0].1 != pair[1].1)
            .all(|pair| next_to(pair, &there));
    names_follow && numbers_follow && together
}
