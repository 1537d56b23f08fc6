//! The trigrams of `remem_core::trgm` against those of PostgreSQL's `pg_trgm`: every character of
//! the basic plane, the exact boundary of the verdict, and many random pairs of texts in many
//! scripts. The server is asked, never assumed.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_core::Trigrams;
use remem_core::trgm::{GUARDED_CHARS_MIN, is_guarded};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::{SeededRandom, cases};
use std::collections::HashSet;
use tokio_postgres::Client;

/// Never change it: a difference that was found once must be found again.
const SEED: u64 = 0x7267_6D00_0085;
/// The number of pairs in one statement.
const STEP: usize = 2_000;

const VERDICTS: &str = "SELECT similarity(a, b) > 0.85::real, cardinality(show_trgm(a)), cardinality(show_trgm(b)), \
    length(a) >= 100 FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS t(a, b, n) ORDER BY n";

/// The ranges of characters that a script's words are made of.
const SCRIPTS: [&[(char, char)]; 14] = [
    &[('a', 'z')],
    &[('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')],
    &[('a', 'z'), ('À', 'ÿ'), ('Ā', 'ž')],
    &[('\u{4E00}', '\u{4E40}'), ('ぁ', 'ん'), ('ァ', 'ヶ')],
    &[('가', '걀')],
    &[('ء', 'ي'), ('٠', '٩'), ('\u{64B}', '\u{652}')],
    &[('अ', 'ह'), ('\u{93E}', '\u{94D}'), ('०', '९')],
    &[('α', 'ω'), ('Α', 'Ρ'), ('Σ', 'Ω'), ('ς', 'ς'), ('ά', 'ώ')],
    &[('a', 'z'), ('İ', 'ı'), ('I', 'I'), ('Ş', 'ş'), ('Ğ', 'ğ')],
    &[('а', 'я'), ('А', 'Я'), ('Ѐ', 'ѐ')],
    &[('👀', '👪'), ('a', 'f'), ('\u{200D}', '\u{200D}')],
    &[('a', 'e'), ('\u{300}', '\u{30F}')],
    &[
        ('๐', '๙'),
        ('০', '৯'),
        ('０', '９'),
        ('²', '³'),
        ('½', '½'),
        ('Ⅰ', 'ⅻ'),
        ('①', '⑨'),
    ],
    &[('ก', 'ฮ'), ('א', 'ת'), ('Ա', 'Ֆ'), ('ა', 'ჰ')],
];

const BETWEEN: [&str; 9] = [" ", " ", " ", ", ", ". ", "-", "_", "\n", "。"];

fn word(random: &mut SeededRandom, script: &[(char, char)]) -> String {
    let len = 1 + random.index(8);
    let one = |random: &mut SeededRandom| {
        let (from, to) = random.pick(script);
        char::from_u32(from as u32 + random.index(to as usize - from as usize + 1) as u32)
            .unwrap_or('x')
    };
    (0..len).map(|_| one(random)).collect()
}

/// A text of one script or of a few, as a list of words.
fn words(random: &mut SeededRandom) -> Vec<String> {
    let first = random.pick(&SCRIPTS);
    let second = random.pick(&SCRIPTS);
    let count = random.pick(&[0, 1, 3, 8, 20, 40, 60]);
    (0..count)
        .map(|_| {
            if random.index(8) == 0 {
                word(random, second)
            } else {
                word(random, first)
            }
        })
        .collect()
}

fn written(random: &mut SeededRandom, words: &[String]) -> String {
    words
        .iter()
        .map(|word| [word.as_str(), random.pick(&BETWEEN)].concat())
        .collect()
}

/// The same text with a few changes: so many that the similarity is often about 0.85.
fn changed(random: &mut SeededRandom, words: &[String]) -> Vec<String> {
    let mut words = words.to_vec();
    let changes = random.index(2 + words.len() / 5);
    for _ in 0..changes {
        let at = random.index(words.len().max(1));
        match random.index(6) {
            0 => words.insert(at.min(words.len()), word(random, SCRIPTS[0])),
            1 if at < words.len() => drop(words.remove(at)),
            2 if at < words.len() => words[at] = words[at].to_uppercase(),
            3 if at < words.len() => words[at].push(random.pick(&['x', 'é', '語', '٣'])),
            4 if at < words.len() => drop(words[at].pop()),
            _ => words.reverse(),
        }
    }
    words
}

async fn client() -> Client {
    let client = TestDatabase::empty().await.admin().await;
    client
        .batch_execute("CREATE EXTENSION pg_trgm")
        .await
        .unwrap();
    client
}

/// Characters of the basic plane that are letters here and not on the server, whose tables of
/// Unicode are older. All others must agree, and every letter of the server must be a letter here.
async fn unknown_to_server(client: &Client) -> HashSet<char> {
    let all: Vec<char> = ('\u{1}'..='\u{FFFF}').collect();
    let texts: Vec<String> = all.iter().map(char::to_string).collect();
    let sql = "SELECT show_trgm(a) FROM unnest($1::text[]) WITH ORDINALITY AS t(a, n) ORDER BY n";
    let mut unknown = HashSet::new();
    for (row, &c) in client.query(sql, &[&texts]).await.unwrap().iter().zip(&all) {
        let theirs = spelled(&row.get::<_, Vec<String>>(0));
        let ours = Trigrams::of(&c.to_string());
        if theirs.is_empty() && !ours.is_empty() {
            unknown.insert(c);
        } else {
            assert_eq!(
                theirs,
                ours.to_bytes(),
                "U+{:04X}: another letter, or one that only the server knows",
                c as u32
            );
        }
    }
    unknown
}

/// Trigrams as the server shows them, as bytes in ascending order.
fn spelled(shown: &[String]) -> Vec<u8> {
    let bytes = |shown: &String| match shown.strip_prefix("0x").filter(|_| shown.len() > 3) {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap().to_be_bytes()[1..].to_vec(),
        None => shown.as_bytes().to_vec(),
    };
    let mut all: Vec<Vec<u8>> = shown.iter().map(bytes).collect();
    all.sort_unstable();
    all.concat()
}

/// Compares verdicts and counts of all pairs; returns how many restate each other, and how many are
/// within a twentieth of the threshold.
async fn compare(client: &Client, pairs: &[(String, String)]) -> (usize, usize) {
    let mut shadows = 0;
    let mut near = 0;
    for step in pairs.chunks(STEP) {
        let (left, right): (Vec<&str>, Vec<&str>) =
            step.iter().map(|(a, b)| (a.as_str(), b.as_str())).unzip();
        let rows = client.query(VERDICTS, &[&left, &right]).await.unwrap();
        assert_eq!(rows.len(), step.len());
        for (row, (a, b)) in rows.iter().zip(step) {
            let ours = Trigrams::of(a);
            let other = Trigrams::of(b);
            let counts = (row.get::<_, i32>(1) as usize, row.get::<_, i32>(2) as usize);
            assert_eq!(
                counts,
                (ours.len(), other.len()),
                "trigrams of {a:?} and {b:?}"
            );
            assert_eq!(
                row.get::<_, bool>(0),
                ours.restates(&other),
                "verdict over {a:?} and {b:?}"
            );
            assert_eq!(
                row.get::<_, bool>(3),
                is_guarded(a),
                "the floor of {GUARDED_CHARS_MIN} characters: {a:?}"
            );
            assert!(!ours.restates(&other) || ours.restating_sizes().contains(&other.len()));
            let (both, either) = ours.similarity(&other);
            shadows += usize::from(ours.restates(&other));
            near += usize::from(20 * both >= 16 * either && 20 * both <= 18 * either && either > 0);
        }
    }
    (shadows, near)
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_match_postgresql_except_for_newer_unicode() {
    let unknown = unknown_to_server(&client().await).await;
    println!(
        "{} of 63487 characters of the basic plane are words here and not on this server",
        unknown.len()
    );
    // The characters in common use are known to every server.
    assert!(unknown.iter().all(|c| !c.is_ascii()
        && !matches!(c, 'À'..='ž' | 'α'..='ω' | 'а'..='я' | '一'..='龥' | 'ぁ'..='ん')));
    assert!(
        unknown.len() < 2_000,
        "the server's tables of Unicode are not those of UTF-8: {}",
        unknown.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_and_counts_match_postgresql() {
    let client = client().await;
    let unknown = unknown_to_server(&client).await;
    let mut random = SeededRandom::new(SEED);
    let count = cases(6_000, 24_000) as usize;
    let mut pairs = Vec::with_capacity(count);
    let known = |text: String| {
        text.chars()
            .filter(|c| !unknown.contains(c))
            .collect::<String>()
    };
    while pairs.len() < count {
        let ours = words(&mut random);
        let theirs = if random.index(10) == 0 {
            words(&mut random)
        } else {
            changed(&mut random, &ours)
        };
        pairs.push((
            known(written(&mut random, &ours)),
            known(written(&mut random, &theirs)),
        ));
    }
    let (shadows, near) = compare(&client, &pairs).await;
    println!("{count} pairs: {shadows} shadow, {near} are within a twentieth of the threshold");
    assert!(
        shadows > count / 10 && shadows < count * 9 / 10 && near > count / 20,
        "{shadows} {near}: the pairs test nothing"
    );
}

/// Words of two letters, each with three trigrams of which no two are alike: sets of any size.
fn separate_words(count: usize) -> Vec<String> {
    let letter = |n: usize| char::from_u32(0x4E00 + n as u32).unwrap();
    (0..count)
        .map(|n| format!("{}{}", letter(2 * n), letter(2 * n + 1)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_at_the_threshold_match_postgresql() {
    let client = client().await;
    let all = separate_words(400);
    // All fractions of words around 17/20, the fraction itself among them. Hashes of trigrams may
    // coincide, so the results of both sides on the texts count.
    let mut pairs = Vec::new();
    for whole in 1..=400usize {
        let least = (17 * whole / 20).saturating_sub(1);
        pairs.extend(
            (least..=whole.min(least + 3))
                .map(|part| (all[..whole].join(" "), all[..part].join(" "))),
        );
    }
    let exact = |(a, b): &&(String, String)| {
        let (both, either) = Trigrams::of(a).similarity(&Trigrams::of(b));
        20 * both == 17 * either
    };
    assert!(
        pairs.iter().filter(exact).count() >= 15,
        "no pair is exactly at the threshold"
    );
    let (shadows, near) = compare(&client, &pairs).await;
    println!(
        "{} pairs at the threshold: {shadows} shadow, {near} are near",
        pairs.len()
    );
    assert!(shadows > 0 && shadows < pairs.len());
}
