//! Measures what distillation keeps: the share of questions about long conversations that can still
//! be answered from a tenth, a quarter or half of the text, compared with other ways to choose; and
//! the time of the plan.

use crate::locomo::{self, Conversation, Score};
use crate::selection::STRATEGIES;
use crate::table::{Table, median, ms};
use anyhow::{Context, ensure};
use remem_core::distill::{DigestLimits, DistillSource, plan_digest};
use remem_engine::tokens::O200k;
use std::path::Path;
use std::time::Instant;

/// The percentages of the tokens that are kept.
const SHARES: [u64; 3] = [10, 25, 50];
/// The number of sources of the plan that is timed.
const SOURCES: usize = 5_000;
const PLANS: usize = 5;

pub fn run(file: &Path, held_out: usize) -> anyhow::Result<()> {
    let conversations = locomo::read(file)?;
    ensure!(
        !conversations.is_empty() && held_out <= conversations.len(),
        "there are {} conversations",
        conversations.len()
    );
    let (first, last) = conversations.split_at(conversations.len() - held_out);
    for (name, part) in [
        ("all conversations", &conversations[..]),
        ("without the held-out ones", first),
        ("held out", last),
    ] {
        if !part.is_empty() {
            quality(name, part);
        }
    }
    measure_plan(&conversations)
}

fn quality(name: &str, conversations: &[Conversation]) {
    let mut table = Table::new(&["Kept by", "10 % kept", "25 % kept", "50 % kept"]);
    for (keeper, keep) in STRATEGIES {
        let cell = |share: u64| {
            let scored = conversations.iter().map(|conversation| {
                let tokens: usize = conversation
                    .turns
                    .iter()
                    .map(|turn| O200k::count(&turn.text))
                    .sum();
                // Tokens that are kept are counted twice, because they are read and written.
                locomo::score(
                    conversation,
                    &keep(conversation, 2 * tokens as u64 * share / 100),
                )
            });
            scored.fold(Score::default(), Score::plus).cell()
        };
        table.row(std::iter::once(keeper.to_owned()).chain(SHARES.map(cell)));
    }
    let questions: usize = conversations
        .iter()
        .map(|conversation| conversation.questions.len())
        .sum();
    let turns: usize = conversations
        .iter()
        .map(|conversation| conversation.turns.len())
        .sum();
    let title = format!(
        "## Distill: {name}, {} conversations, {turns} turns, {questions} questions",
        conversations.len()
    );
    table.print(&format!("{title}\n\nPercent of questions whose whole evidence is kept / mean percent of the words of the answer."));
}

fn measure_plan(conversations: &[Conversation]) -> anyhow::Result<()> {
    let turns = conversations
        .iter()
        .flat_map(|conversation| &conversation.turns)
        .cycle()
        .take(SOURCES)
        .enumerate();
    let sources: Vec<DistillSource> = turns
        .map(|(at, turn)| DistillSource {
            id: format!("{at}"),
            ..turn.clone()
        })
        .collect();
    let count = || {
        sources
            .iter()
            .map(|source| O200k::count(&source.text) as u64)
            .sum::<u64>()
    };
    let tokens = count();
    let counting = median(
        (0..PLANS)
            .map(|_| timed(|| std::hint::black_box(count())))
            .collect(),
    );
    let planning = || {
        plan_digest(
            &sources,
            tokens / 2,
            &DigestLimits {
                output_bytes_max: usize::MAX,
                ..DigestLimits::default()
            },
            &O200k::count,
        )
    };
    let digest = planning().context("no digest")?;
    let whole = median((0..PLANS).map(|_| timed(planning)).collect());
    println!(
        "\nPlanning {SOURCES} sources of {tokens} tokens, a quarter kept ({} units): {}.",
        digest.units.len(),
        ms(whole)
    );
    println!(
        "Floor: counting the tokens of the sources once takes {}.",
        ms(counting)
    );
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    std::hint::black_box(work());
    begun.elapsed().as_secs_f64() * 1e3
}
