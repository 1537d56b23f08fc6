//! The rules of trigrams one by one; the server itself is asked in
//! `remem-store-sql/tests/it/trigrams.rs`.

use super::*;
use proptest::prelude::*;

fn of(text: &str) -> Trigrams {
    Trigrams::of(text)
}

/// The first `len` values of the number line, from `start` on: sets of any size and overlap.
fn values(start: u32, len: usize) -> Trigrams {
    Trigrams((start..start + len as u32).collect())
}

#[test]
fn words_are_padded_with_two_spaces_before_and_one_after() {
    let text = |set: &Trigrams| {
        set.to_bytes()
            .chunks(3)
            .map(|chunk| String::from_utf8_lossy(chunk).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(text(&of("Cat")), ["  c", " ca", "at ", "cat"]);
    assert_eq!(text(&of("a")), ["  a", " a "]);
    assert_eq!(
        text(&of("x_y 7")),
        ["  7", "  x", "  y", " 7 ", " x ", " y "]
    );
    assert!(of("").is_empty() && of(" -- !? ²³ 👍 \u{301}").is_empty());
}

#[test]
fn multibyte_trigrams_are_hashed_as_in_postgresql() {
    // As `show_trgm` prints them on a UTF-8 database.
    assert_eq!(
        of("日本").to_bytes(),
        [0x1e, 0x22, 0xe9, 0x20, 0x3d, 0x17, 0x83, 0x6e, 0x53]
    );
    assert_eq!(of("é").to_bytes(), [0xe6, 0x9b, 0x54, 0xe8, 0x2c, 0x48]);
}

#[test]
fn lower_casing_maps_one_character_to_one() {
    assert_eq!(of("ΟΔΟΣ"), of("οδοσ"));
    assert_ne!(of("ΟΔΟΣ"), of("οδος"), "no rule for the sigma at the end");
    assert_eq!(of("İ"), of("i"));
    assert_eq!(of("ÄÖ"), of("äö"));
    assert_eq!(of("٣٤٥").len(), 4, "digits of other scripts are of words");
    assert_eq!(of("a²b"), of("a b"), "other numbers are not");
}

#[test]
fn the_threshold_is_exclusive_at_exactly_17_of_20() {
    let whole = values(0, 20);
    assert_eq!(whole.similarity(&values(0, 17)), (17, 20));
    assert!(!whole.restates(&values(0, 17)));
    assert!(whole.restates(&values(0, 18)));
    // Of all fractions with a denominator up to 400, the smallest above 17/20 and the largest
    // below.
    let above = (329, 387);
    let below = (334, 393);
    assert!(
        values(0, above.1).restates(&values(0, above.0)),
        "{above:?}"
    );
    assert!(
        !values(0, below.1).restates(&values(0, below.0)),
        "{below:?}"
    );
    assert!(!of("").restates(&of("")), "nothing is like nothing");
}

#[test]
fn the_length_floor_counts_characters_not_bytes() {
    assert!(!is_guarded(&"é".repeat(99)) && is_guarded(&"é".repeat(100)));
    assert!(!is_guarded("") && !is_guarded(&"日".repeat(99)) && is_guarded(&"x".repeat(101)));
}

#[test]
fn malformed_trigram_bytes_are_rejected() {
    for bad in [
        &[1, 2][..],
        &[0, 0, 2, 0, 0, 1],
        &[0, 0, 1, 0, 0, 1],
        &[0, 0, 1, 0],
    ] {
        assert_eq!(Trigrams::from_bytes(bad), None);
    }
    assert_eq!(Trigrams::from_bytes(&[]), Some(Trigrams::default()));
    assert_eq!(
        Trigrams::from_bytes(&[0, 1, 0, 0, 1, 1]),
        Some(values(256, 2))
    );
}

#[test]
fn debug_output_omits_the_text() {
    assert_eq!(format!("{:?}", of("cat")), "Trigrams(4)");
}

/// Words of several scripts, with the characters between them.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-zA-Z0-9]{1,7}|[äöüßñéÇ]{1,4}|[日本語規則]{1,3}|[α-ωΣ]{1,5}|[ء-ي]{1,4}|[क-ह]{1,4}|\\PC{1,4}", 0..30)
        .prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(crate::test_cases::config(64, 256))]

    #[test]
    fn order_repetition_case_and_punctuation_are_ignored(words in proptest::collection::vec("[a-z0-9éäя日]{1,8}", 1..12), turn in 0usize..12) {
        let plain = of(&words.join(" "));
        let mut turned = words.clone();
        turned.rotate_left(turn % words.len());
        turned.push(words[0].clone());
        prop_assert_eq!(&plain, &of(&turned.join(" -- ")));
        prop_assert_eq!(&plain, &of(&words.join("_").to_uppercase()));
        prop_assert_eq!(&plain, &of(&format!("({})!", words.join(", "))));
    }

    #[test]
    fn a_trigram_set_round_trips_through_bytes(text in text()) {
        let set = of(&text);
        prop_assert!(set.0.is_sorted_by(|a, b| a < b) && set.0.iter().all(|&value| value < 1 << 24));
        prop_assert_eq!(set.to_bytes().len(), 3 * set.len());
        prop_assert_eq!(Trigrams::from_bytes(&set.to_bytes()), Some(set));
    }

    #[test]
    fn similarity_counts_intersection_and_union(a in text(), b in text()) {
        let left = of(&a);
        let right = of(&b);
        let (both, either) = left.similarity(&right);
        prop_assert_eq!(both, left.0.iter().filter(|value| right.0.contains(value)).count());
        prop_assert_eq!(of(&format!("{a} {b}")).len(), either);
        prop_assert_eq!((both, either), right.similarity(&left));
        prop_assert_eq!(left.restates(&right), right.restates(&left));
        prop_assert_eq!(left.restates(&left), !left.is_empty());
    }

    /// Sound: a set of a size outside never restates. Tight: one of a size inside does, if one set
    /// contains the other.
    #[test]
    fn restating_sizes_are_exactly_those_that_can_restate(len in 0usize..400, other in 0usize..500, shift in 0u32..40) {
        let set = values(0, len);
        prop_assert_eq!(set.restating_sizes().contains(&other), set.restates(&values(0, other)));
        if set.restates(&values(shift, other)) {
            prop_assert!(set.restating_sizes().contains(&other));
        }
    }
}

/// The comparison with a stored set gives the same answer as the plain comparison, also where it
/// stops early.
#[test]
fn stored_and_plain_comparison_agree() {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut verdicts = [0; 2];
    for _ in 0..20_000 {
        let size = 1 + random(60);
        // Sets that differ in about as many places as the threshold.
        let differing = random(size / 4 + 2);
        let base: Vec<u32> = (0..size).map(|_| random(1 << 24) as u32).collect();
        let mut changed = base.clone();
        for _ in 0..differing {
            let at = random(size) as usize;
            match random(3) {
                0 => changed[at] = random(1 << 24) as u32,
                1 => changed.push(random(1 << 24) as u32),
                _ => changed[at] = base[0],
            }
        }
        let [left, right] = [base, changed].map(|mut values| {
            values.sort_unstable();
            values.dedup();
            Trigrams(values)
        });
        let plain = left.restates(&right);
        verdicts[usize::from(plain)] += 1;
        assert_eq!(left.restates_stored(&right.to_bytes()), Some(plain));
        assert_eq!(right.restates_stored(&left.to_bytes()), Some(plain));
    }
    assert!(verdicts.iter().all(|count| *count > 1_000), "{verdicts:?}");
    let empty = Trigrams::default();
    assert_eq!(empty.restates_stored(&[]), Some(empty.restates(&empty)));
    let some = Trigrams::of("some words");
    assert_eq!(some.restates_stored(&[0, 0]), None, "no whole trigram");
    let mut bytes = some.to_bytes();
    bytes.rotate_left(3);
    assert_eq!(some.restates_stored(&bytes), None, "no order");
}
