//! The properties of every digest, for any sources: the same bytes for the same set, never more
//! than the budget, and no word that is not in a source. One digest is given in full, so that a
//! change of the algorithm shows.

use crate::test_cases::config;
use proptest::prelude::*;
use remem_core::Timestamp;
use remem_core::distill::{
    Archive, DigestLimits, DistillError, DistillSource, ENGINE, TextDigest, plan_digest,
};
use std::collections::BTreeSet;

/// A simple token counter: each word and punctuation mark is one token, and so is each line break.
fn count(text: &str) -> usize {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .count();
    words
        + text
            .chars()
            .filter(|c| !c.is_alphanumeric() && *c != ' ')
            .count()
}

fn made(sources: &[DistillSource], budget: u64) -> Result<TextDigest, DistillError> {
    plan_digest(
        sources,
        budget,
        &DigestLimits {
            tokenizer: "words",
            ..DigestLimits::default()
        },
        &count,
    )
}

/// Texts that are half prose, half arbitrary Unicode.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z]{1,8}",
        "[A-Z][a-z]{2,6}",
        "[0-9]{1,4}",
        "I|you|thanks|last|week|went|東京です",
        "[.!?,]|\n"
    ];
    prop_oneof![
        4 => prop::collection::vec(word.clone(), 0..40).prop_map(|words| words.join(" ")),
        1 => prop::collection::vec(word, 40..60).prop_map(|words| words.join(" ").repeat(6)),
        2 => any::<String>(),
        1 => any::<String>().prop_map(|text| text.repeat(20)),
    ]
}

fn sources() -> impl Strategy<Value = Vec<DistillSource>> {
    let source = (0..16u32, 0..5i64, text());
    let source = source.prop_map(|(id, at, text)| DistillSource {
        id: format!("mem_{id}"),
        created_at: Timestamp(at),
        text,
    });
    prop::collection::vec(source, 0..12)
}

/// A permutation of the sources, with some of them repeated.
fn shuffled(sources: &[DistillSource], seed: u64) -> Vec<DistillSource> {
    let mut state = seed;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut all = sources.to_vec();
    (0..sources.len() / 2).for_each(|_| all.push(sources[next() % sources.len()].clone()));
    (1..all.len())
        .rev()
        .for_each(|at| all.swap(at, next() % (at + 1)));
    all
}

proptest! {
    #![proptest_config(config(64, 100))]

    #[test]
    fn the_archive_does_not_depend_on_source_order(sources in sources(), budget in 0..2_000u64, seed: u64) {
        let one = made(&sources, budget);
        let other = made(&shuffled(&sources, seed), budget);
        prop_assert_eq!(&one, &other);
        if let (Ok(one), Ok(other)) = (one, other) {
            prop_assert_eq!(one.archive, other.archive);
        }
    }

    #[test]
    fn the_budget_bounds_the_tokens_read_and_written(sources in sources(), budget in 0..2_000u64) {
        match made(&sources, budget) {
            Ok(digest) => {
                let read: usize = digest.units.iter().map(|unit| count(&unit.text)).sum();
                prop_assert_eq!(digest.tokens_used, (read + count(&digest.text)) as u64);
                prop_assert!(digest.tokens_used <= budget);
                prop_assert!(budget >= 64 && budget >= digest.tokens_in.div_ceil(8));
            }
            Err(DistillError::BudgetTooSmall { budget: given, minimum }) => prop_assert!(given == budget && minimum > budget),
            Err(DistillError::NothingToDistill) => prop_assert!(sources.iter().all(|source| source.text.trim().is_empty())),
            Err(refusal) => prop_assert!(false, "{}", refusal),
        }
    }

    #[test]
    fn units_quote_their_source_and_the_archive_rebuilds_the_text(sources in sources(), budget in 64..2_000u64) {
        let Ok(digest) = made(&sources, budget) else { return Ok(()) };
        for unit in &digest.units {
            let cut = |source: &DistillSource| source.text.get(unit.start..unit.end) == Some(&unit.text);
            prop_assert!(sources.iter().any(|source| source.id == unit.source && cut(source)));
        }
        let archive = Archive::parse(&digest.archive).unwrap();
        prop_assert_eq!(archive.text(), digest.text);
        prop_assert_eq!(archive.sha256(), digest.sha256);
        let ids: BTreeSet<&String> = sources.iter().map(|source| &source.id).collect();
        prop_assert!(digest.sources.iter().eq(ids));
    }

    #[test]
    fn the_digest_respects_the_byte_limit(sources in sources(), most in 1..600usize) {
        let limits = DigestLimits { output_bytes_max: most, ..DigestLimits::default() };
        if let Ok(digest) = plan_digest(&sources, 100_000, &limits, &count) {
            prop_assert!(digest.text.len() <= most && !digest.text.is_empty());
        }
    }

    #[test]
    fn a_superadditive_token_counter_stays_within_budget(sources in sources(), budget in 64..2_000u64) {
        let grim = |text: &str| text.len() / 7 * (1 + text.len() / 100);
        if let Ok(digest) = plan_digest(&sources, budget, &DigestLimits::default(), &grim) {
            let read: usize = digest.units.iter().map(|unit| grim(&unit.text)).sum();
            prop_assert!((read + grim(&digest.text)) as u64 <= budget);
        }
    }
}

fn source(id: &str, at: i64, text: &str) -> DistillSource {
    DistillSource {
        id: id.to_owned(),
        created_at: Timestamp(at),
        text: text.to_owned(),
    }
}

fn small() -> Vec<DistillSource> {
    let texts = [
        "Hey! How are you?",
        "I moved to Oslo on 3 March and started at the harbour office.",
        "Wow, that's great!",
        "My sister visited last week; we went skiing twice and bought a red sledge.",
        "Thanks, you are too kind!",
        "The harbour office closes at 16:30 on Fridays.",
        "Sounds good, talk soon!",
        "Did you like the sledge?",
        "I sold the red sledge to a neighbour yesterday for 40 crowns.",
        "Skiing skiing skiing, that is all that people here ever want to talk about when it gets cold.",
    ];
    (0i64..)
        .zip(texts)
        .map(|(at, text)| source(&format!("mem_{at}"), 1_000 * at, text))
        .collect()
}

/// If this fails, the selection has changed: archives made before cannot be made again. Give the
/// engine a new name, and then put the new bytes here.
#[test]
fn the_digest_of_a_fixed_input_is_stable() {
    let digest = made(&small(), 100).unwrap();
    assert_eq!(ENGINE, "remem-distill-1");
    let lines = [
        "I moved to Oslo on 3 March and started at the harbour office.",
        "My sister visited last week; we went skiing twice and bought a red sledge.",
        "I sold the red sledge to a neighbour yesterday for 40 crowns.",
    ];
    assert_eq!(digest.text, lines.join("\n"));
    assert_eq!(
        digest.sha256,
        "01b36cf14697c6c91c134751775b97c7df6885b9d1f7b42e210b7df3989db6f8"
    );
    assert_eq!(
        digest.source_digest,
        "888e66daa95a79b2ff5eee685fa2420eef4287bea93f5e0930299492d0c3e5d7"
    );
    assert_eq!(
        digest.topics,
        [
            "red",
            "sledge",
            "bought",
            "crowns",
            "last",
            "march",
            "moved",
            "neighbour"
        ]
    );
    assert_eq!(
        (digest.from, digest.to, digest.tokens_used),
        (Timestamp(0), Timestamp(9_000), 88)
    );
}

#[test]
fn rejected_digests_report_the_required_budget() {
    assert_eq!(made(&[], 1_000), Err(DistillError::NothingToDistill));
    assert_eq!(
        made(&[source("a", 0, " \n ")], 1_000),
        Err(DistillError::NothingToDistill)
    );
    assert_eq!(
        made(&small(), 63),
        Err(DistillError::BudgetTooSmall {
            budget: 63,
            minimum: 64
        })
    );
    let long = [source("a", 0, &"word ".repeat(7_200))];
    assert_eq!(
        made(&long, 899),
        Err(DistillError::BudgetTooSmall {
            budget: 899,
            minimum: 900
        })
    );
    assert!(made(&long, 900).is_ok());
    let dense = [source("a", 0, &"!".repeat(100))];
    assert_eq!(
        made(&dense, 100),
        Err(DistillError::BudgetTooSmall {
            budget: 100,
            minimum: 201
        })
    );
    let limits = DigestLimits {
        output_bytes_max: 3,
        ..DigestLimits::default()
    };
    assert_eq!(
        plan_digest(&small(), 1_000, &limits, &count),
        Err(DistillError::OutputTooLarge { limit: 3 })
    );
}

#[test]
fn a_generous_budget_keeps_every_informative_unit() {
    let digest = made(&small(), 10_000).unwrap();
    let kept: Vec<&str> = digest
        .units
        .iter()
        .map(|unit| unit.source.as_str())
        .collect();
    assert_eq!(
        kept,
        [
            "mem_1", "mem_3", "mem_4", "mem_5", "mem_7", "mem_8", "mem_9"
        ]
    );
}

#[test]
fn debug_output_omits_the_content() {
    let sources = small();
    let digest = made(&small(), 200).unwrap();
    let shown = format!("{sources:?} {digest:?} {:?}", digest.units);
    assert!(
        !shown.contains("sledge") && !shown.contains("Oslo"),
        "{shown}"
    );
}
