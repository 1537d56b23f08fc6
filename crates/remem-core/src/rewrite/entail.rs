//! Whether a line says what the sentences that it cites say. Every clause has to be carried by one
//! sentence: its words are that sentence's words, it says no exactly where the sentence does, and
//! names and numbers keep their neighbours.

use super::Refusal;
use super::words::{Kind, Sentence, Token, sentences};
use crate::sabotage;

/// The cited sentences that carry a line, with the number that each of them came with.
pub(super) fn carriers<'a>(
    line: &str,
    cited: &[(usize, &'a Sentence)],
) -> Result<Vec<(usize, &'a Sentence)>, Refusal> {
    let said = sentences(line);
    if !said
        .iter()
        .any(|sentence| sentence.tokens.iter().any(Token::is_content))
    {
        return Err(Refusal::Empty);
    }
    let mut found = Vec::new();
    for sentence in &said {
        sabotage!(
            "a-model-may-invent-words",
            known_words(&sentence.tokens, cited)?
        );
        if let Ok(carrier) = carrier(&sentence.tokens, cited) {
            found.push(carrier);
            continue;
        }
        for clause in clauses(&sentence.tokens) {
            found.push(carrier(clause, cited)?);
        }
    }
    Ok(found)
}

/// Every word occurs somewhere in what is cited.
fn known_words(tokens: &[Token], cited: &[(usize, &Sentence)]) -> Result<(), Refusal> {
    for token in tokens.iter().filter(|token| token.kind != Kind::Function) {
        if cited
            .iter()
            .any(|(_, sentence)| sentence.tokens.iter().any(|other| token.is(other)))
        {
            continue;
        }
        return Err(match token.kind {
            Kind::Number => Refusal::InventedNumber,
            Kind::Identifier => Refusal::InventedIdentifier,
            Kind::Negator => Refusal::InventedNegation,
            Kind::Word if token.capital => Refusal::InventedName,
            Kind::Qualifier => Refusal::ChangedQualifier,
            Kind::Word | Kind::Function => Refusal::InventedWord,
        });
    }
    Ok(())
}

/// A sentence that carries all of this; otherwise why the one that came closest does not.
fn carrier<'a>(
    tokens: &[Token],
    cited: &[(usize, &'a Sentence)],
) -> Result<(usize, &'a Sentence), Refusal> {
    let mut why = Refusal::MixedSentences;
    for (number, sentence) in cited {
        match carries(&sentence.tokens, tokens) {
            Ok(()) => return Ok((*number, sentence)),
            Err(Refusal::MixedSentences) => {}
            Err(closer) => why = closer,
        }
    }
    Err(why)
}

/// The parts of a sentence that stand on their own. One with a single word of content belongs to
/// its neighbour: "Ann and Ben pay" says something of both.
fn clauses(tokens: &[Token]) -> Vec<&[Token]> {
    let content = |tokens: &[Token]| tokens.iter().filter(|token| token.is_content()).count();
    let mut found = Vec::new();
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        let joint = token.kind == Kind::Function
            && ["and", "but", "while", "whereas", ";"].contains(&token.key.as_str());
        if joint && content(&tokens[start..at]) > 1 && content(&tokens[at..]) > 1 {
            found.push(&tokens[start..at]);
            start = at + 1;
        }
    }
    found.push(&tokens[start..]);
    found
}

fn carries(sentence: &[Token], said: &[Token]) -> Result<(), Refusal> {
    let covered = said
        .iter()
        .filter(|token| token.is_content())
        .all(|token| sentence.iter().any(|other| token.is(other)));
    if !covered {
        return Err(Refusal::MixedSentences);
    }
    let denied = denials(sentence);
    let denies = denials(said);
    if sabotage!("a-model-may-drop-a-not", denied.len() > denies.len(), false) {
        return Err(Refusal::DroppedNegation);
    }
    if denied != denies {
        return Err(Refusal::InventedNegation);
    }
    if qualifiers(sentence) != qualifiers(said) {
        return Err(Refusal::ChangedQualifier);
    }
    let dated = is_dated(sentence);
    if sabotage!(
        "a-model-may-swap-numbers",
        in_place(sentence, said, dated) && in_order(sentence, said, dated),
        true
    ) {
        Ok(())
    } else {
        Err(Refusal::Rebound)
    }
}

/// Whether the only numbers of a sentence are one date, and it has one clause: then that holds for
/// all of it, and may stand at either end.
fn is_dated(sentence: &[Token]) -> bool {
    let content = content(sentence);
    let is_number = |at: usize| content[at].kind == Kind::Number;
    let groups = (0..content.len())
        .filter(|at| is_number(*at) && (*at == 0 || !is_number(at - 1)))
        .count();
    groups == 1 && content.iter().any(|token| token.is_date()) && clauses(sentence).len() == 1
}

/// What says no, each with the word that it denies.
fn denials(tokens: &[Token]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (at, token) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.kind == Kind::Negator)
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

fn qualifiers(tokens: &[Token]) -> Vec<&str> {
    let mut found: Vec<&str> = tokens
        .iter()
        .filter(|token| token.kind == Kind::Qualifier)
        .map(|token| token.key.as_str())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn content(tokens: &[Token]) -> Vec<&Token> {
    tokens.iter().filter(|token| token.is_content()).collect()
}

/// Every name and number has a neighbour that it has in the sentence, too, and on the same side.
fn in_place(sentence: &[Token], said: &[Token], dated: bool) -> bool {
    let sentence = content(sentence);
    let said = content(said);
    let placed = |at: usize| {
        (0..sentence.len()).any(|other| {
            said[at].is(sentence[other]) && same_place((&sentence, other), (&said, at), dated)
        })
    };
    (0..said.len())
        .filter(|at| said[*at].is_special())
        .all(placed)
}

fn same_place(
    (sentence, there): (&[&Token], usize),
    (said, here): (&[&Token], usize),
    dated: bool,
) -> bool {
    let next_there = sentence.get(there + 1);
    let next_here = said.get(here + 1);
    // What follows a number is what it counts.
    if said[here].kind == Kind::Number
        && !dated
        && next_there.is_some_and(|next| next.kind == Kind::Word && !next.capital)
    {
        return next_here
            .is_some_and(|next| next.key == next_there.map_or("", |next| next.key.as_str()));
    }
    let meet = |one: &[&Token], other: &[&Token]| {
        one.iter()
            .any(|token| other.iter().any(|other| token.key == other.key))
    };
    let after = |tokens: &[&Token], at: usize, reach: usize| -> std::ops::Range<usize> {
        at + 1..(at + 1 + reach).min(tokens.len())
    };
    let reach = if said[here].kind == Kind::Number {
        1
    } else {
        2
    };
    sentence.len() == 1
        || meet(
            &said[after(said, here, reach)],
            &sentence[after(sentence, there, reach)],
        )
        || meet(
            &said[here.saturating_sub(reach)..here],
            &sentence[there.saturating_sub(reach)..there],
        )
}

/// Names follow each other as they do in the sentence, numbers come in its order; and where it has
/// several names, each number stays with its own.
fn in_order(sentence: &[Token], said: &[Token], dated: bool) -> bool {
    let specials = |tokens: &[Token]| -> Vec<(String, bool)> {
        let special = tokens.iter().filter(|token| token.is_special());
        special
            .map(|token| (token.key.clone(), token.kind == Kind::Number))
            .collect()
    };
    let there = specials(sentence);
    // The first word of a line may have its capital letter from standing there.
    let here: Vec<_> = specials(said)
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
