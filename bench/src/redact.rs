//! `redact`: throughput of the redactor on one core. The peer is what hosts commonly do: replace
//! every registered value, longest first, with `str::replace`. It finds exact values only; the
//! redactor also finds them encoded, spaced out or cut, and text that has the shape of a secret.

use crate::corpus::Contents;
use crate::table::{Table, median, ms, number, ratio};
use crate::text::{SeededRandom, WordList};
use crate::{Setup, facts};
use anyhow::{bail, ensure};
use remem_core::redact::SecretValue;
use remem_core::{Redactor, ShapePolicy};
use std::time::{Duration, Instant};

#[path = "../../crates/remem-core/tests/it/redaction/hostile_texts.rs"]
pub mod hostile_texts;

const VALUES: [usize; 3] = [0, 10, 1_000];
const ENTRY_BYTES: [usize; 2] = [1_000, 64_000];
/// The length of text between two planted secrets.
const PLANTED_EVERY: usize = 4_000;
/// The number of values that are planted; all sets but the empty one contain them.
const PLANTED: usize = 10;
/// The time for which each rate is measured.
const CELL_TIME: Duration = Duration::from_millis(1_500);
const BUILDS: usize = 5;

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let vocabulary = Contents::new().0;
    let values = values(&vocabulary);
    let heads = [
        "Values",
        "built in",
        "entries of",
        "text",
        "redactor MB/s",
        "an entry takes",
        "naive MB/s",
        "redactor : naive",
    ];
    let mut table = Table::new(&heads);
    for entry_bytes in ENTRY_BYTES {
        for planted in [false, true] {
            let texts = texts(
                &vocabulary,
                &values,
                setup.megabytes * 1_000_000,
                entry_bytes,
                planted,
            );
            for count in VALUES {
                table.row(cell(&values[..count], &texts, entry_bytes, planted)?);
            }
        }
    }
    table.print(&format!(
        "## Redact: one core, {} MB of prose",
        setup.megabytes
    ));
    let texts = texts(
        &vocabulary,
        &values,
        setup.megabytes * 1_000_000,
        ENTRY_BYTES[0],
        false,
    );
    let (copying, _) = rate(&texts, |text| text.to_owned());
    println!(
        "\nFloor: copying the same text takes {} MB/s.",
        number(copying)
    );
    hostile(&values);
    Ok(())
}

/// Measures the time for a mebibyte of each text of the hostile corpus. The aim is a tenth of a
/// second.
fn hostile(values: &[String]) {
    let given = values.iter().take(PLANTED).enumerate();
    let redactor =
        Redactor::new(given.map(|(n, value)| SecretValue::new(format!("secret-{n}"), value)));
    let mut table = Table::new(&["Text", "bytes looked at : text", "a MiB takes"]);
    for (name, text) in hostile_texts::hostile_texts(1 << 20) {
        let examined = redactor.clean(&text, ShapePolicy::Redact).examined;
        let (rate, _) = rate(std::slice::from_ref(&text), |text| {
            redactor.clean(text, ShapePolicy::Redact).text.into_string()
        });
        table.row([
            name.to_owned(),
            ratio(examined as f64, text.len() as f64),
            ms(f64::from(1 << 20) / 1e6 / rate * 1e3),
        ]);
    }
    table.print("## Redact: texts made to cost much");
}

fn cell(
    values: &[String],
    texts: &[String],
    entry_bytes: usize,
    planted: bool,
) -> anyhow::Result<Vec<String>> {
    let registered = || {
        values
            .iter()
            .enumerate()
            .map(|(n, value)| SecretValue::new(format!("secret-{n}"), value.as_str()))
            .collect::<Vec<_>>()
    };
    let builds = (0..BUILDS).map(|_| {
        let given = registered();
        let begun = Instant::now();
        let redactor = Redactor::new(given);
        (begun.elapsed().as_secs_f64() * 1e3, redactor)
    });
    let (times, mut redactors): (Vec<f64>, Vec<Redactor>) = builds.unzip();
    let redactor = redactors.swap_remove(0);
    check(&redactor, values, texts)?;
    let (ours, seconds) = rate(texts, |text| {
        redactor.clean(text, ShapePolicy::Redact).text.into_string()
    });
    let mut longest_first: Vec<(String, String)> = values
        .iter()
        .enumerate()
        .map(|(n, v)| (v.clone(), format!("[REDACTED:secret-{n}]")))
        .collect();
    longest_first.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    let naive = (!values.is_empty()).then(|| rate(texts, |text| naive(text, &longest_first)).0);
    eprintln!(
        "{} values, entries of {entry_bytes}, planted {planted}: {} MB/s",
        values.len(),
        number(ours)
    );
    Ok(vec![
        values.len().to_string(),
        ms(median(times)),
        format!("{} KB", entry_bytes / 1_000),
        if planted {
            "a secret every 4 KB"
        } else {
            "no secrets"
        }
        .to_owned(),
        number(ours),
        ms(seconds * 1e3),
        naive.map_or_else(|| "–".to_owned(), number),
        naive.map_or_else(|| "–".to_owned(), |naive| ratio(ours, naive)),
    ])
}

/// The peer: replaces each value with `str::replace`.
fn naive(text: &str, longest_first: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (value, marker) in longest_first {
        text = text.replace(value, marker);
    }
    text
}

/// Megabytes per second, and seconds for one text. Uses processor time if the system reports it, so
/// that other load on the machine does not count.
fn rate(texts: &[String], mut work: impl FnMut(&str) -> String) -> (f64, f64) {
    let begun = Instant::now();
    let used = facts::thread_time();
    let mut bytes = 0;
    let mut done = 0;
    // Starts again at the first text until the time is long enough to measure.
    for text in texts.iter().cycle() {
        bytes += text.len();
        done += 1;
        std::hint::black_box(work(std::hint::black_box(text)));
        if begun.elapsed() > CELL_TIME {
            break;
        }
    }
    let wall = begun.elapsed();
    let seconds = facts::thread_time()
        .zip(used)
        .map_or(wall, |(now, then)| now.saturating_sub(then))
        .as_secs_f64();
    (
        bytes as f64 / 1e6 / seconds,
        seconds / f64::from(done.max(1)),
    )
}

/// Checks that no planted value is left in any of a few hundred texts: the speed of a redactor that
/// misses something means nothing.
fn check(redactor: &Redactor, values: &[String], texts: &[String]) -> anyhow::Result<()> {
    for text in texts.iter().take(200) {
        let cleaned = redactor.clean(text, ShapePolicy::Redact);
        if let Some(at) = cleaned.text.as_str().find(SHAPE) {
            // Safe to show, because it was made up here.
            bail!(
                "a secret shape was left in the text: {:?}",
                cleaned.text.as_str().get(at..at + 60)
            );
        }
        let held = values
            .iter()
            .take(PLANTED)
            .filter(|value| text.contains(value.as_str()))
            .count();
        ensure!(
            cleaned.values as usize >= held,
            "{} of {held} values were found",
            cleaned.values
        );
        ensure!(
            !values
                .iter()
                .take(PLANTED)
                .any(|value| cleaned.text.as_str().contains(value.as_str())),
            "a value was left in the text"
        );
    }
    Ok(())
}

/// The beginning of a planted secret that is not registered.
const SHAPE: &str = concat!("gh", "p_");

/// Values to register: mostly keys, one in ten a phrase of words.
fn values(vocabulary: &WordList) -> Vec<String> {
    let mut random = SeededRandom::new(5);
    let phrase = |random: &mut SeededRandom| {
        (0..5)
            .map(|_| vocabulary.at(200 + random.below(5_000)))
            .collect::<Vec<_>>()
            .join("-")
    };
    let one = |n: usize| {
        if n % 10 == 9 {
            return phrase(&mut random);
        }
        let chars = 20 + random.below(28);
        random.key(chars)
    };
    (0..VALUES[VALUES.len() - 1]).map(one).collect()
}

fn texts(
    vocabulary: &WordList,
    values: &[String],
    bytes: usize,
    entry_bytes: usize,
    planted: bool,
) -> Vec<String> {
    let mut random = SeededRandom::new(entry_bytes as u64);
    let mut texts = Vec::new();
    let mut made = 0;
    let mut due = 0;
    while made < bytes {
        let mut text = String::new();
        while text.len() < entry_bytes {
            let part = PLANTED_EVERY.min(entry_bytes - text.len());
            text.push_str(&vocabulary.prose(&mut random, part));
            if planted && made + text.len() >= due {
                due += PLANTED_EVERY;
                let secret = if random.below(2) == 0 {
                    format!("{SHAPE}{}47", random.key(34))
                } else {
                    values[random.below(PLANTED)].clone()
                };
                text.push_str(&secret);
                text.push_str(". ");
            }
        }
        made += text.len();
        texts.push(text);
    }
    texts
}
