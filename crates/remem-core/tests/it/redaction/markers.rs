//! Goal: markers are sound, and the redactor behaves as its callers rely on. Through the public API
//! only.

use remem_core::redact::{FLOOR_CHARS, Redactor, SecretValue, ShapeKind, ShapePolicy};

fn redactor(values: &[(&str, &str)]) -> Redactor {
    Redactor::new(
        values
            .iter()
            .map(|(id, value)| SecretValue::new(*id, *value)),
    )
}

fn check(values: &[(&str, &str)], text: &str, expected: &str) {
    let redactor = redactor(values);
    let once = redactor.clean(text, ShapePolicy::Redact).text.into_string();
    assert_eq!(once, expected, "{values:?}");
    assert_eq!(
        redactor.clean(&once, ShapePolicy::Redact).text.as_str(),
        once,
        "cleaning twice"
    );
    assert_eq!(
        redactor.has_findings(text, ShapePolicy::Redact),
        text != expected
    );
}

const KEY: &str = "Kq7zP2mW9x4LtB6vNc3R";

#[test]
fn existing_markers_are_kept() {
    for text in [
        "see [REDACTED:openai-prod] above",
        "[REDACTED:a][REDACTED:b]",
        "text [REDACTED:x",
        "[REDACTED:shape-jwt]",
        "[REDACTED:some other id]",
    ] {
        check(&[("k", KEY)], text, text);
    }
}

#[test]
fn a_value_inside_a_marker_is_redacted() {
    check(
        &[("k", KEY)],
        &format!("see [REDACTED:{KEY}] there"),
        "see [REDACTED:k] there",
    );
    check(
        &[("k", KEY)],
        &format!("see [REDACTED:x {} y] there", KEY.to_lowercase()),
        "see [REDACTED:k] there",
    );
    check(
        &[],
        &format!("see [REDACTED:ghp_{KEY}jY8sHd5Fg1TaUe0o] there"),
        "see [REDACTED:shape-github-token] there",
    );
}

#[test]
fn marker_like_values_do_not_recurse_or_corrupt_markers() {
    check(&[("m", "REDACTED")], "a REDACTED b", "a [REDACTED:m] b");
    check(&[("m", "REDACTED")], "a [REDACTED:x] b", "a [REDACTED:x] b");
    check(&[("m", "[REDACTED:")], "a [REDACTED: b", "a [REDACTED:m] b");
    check(
        &[("m", "[REDACTED:x]")],
        "a [REDACTED:x] b",
        "a [REDACTED:x] b",
    );
    check(&[("m", "EDACTED:")], "a EDACTED: b", "a [REDACTED:m] b");
    check(
        &[("m", "][REDACTED:")],
        "[REDACTED:a][REDACTED:b]",
        "[REDACTED:m]",
    );
}

#[test]
fn values_formed_by_inserted_markers_are_redacted() {
    check(
        &[("k", KEY), ("m", "]abcdefg")],
        &format!("x{KEY}abcdefg y"),
        "x[REDACTED:m] y",
    );
    check(
        &[("k", KEY), ("m", "abcdefg[")],
        &format!("xabcdefg{KEY} y"),
        "x[REDACTED:m] y",
    );
    // Each round would remove seven more letters; after a few rounds the whole text is redacted.
    check(
        &[("k", KEY), ("m", "]aaaaaaa")],
        &format!("{KEY}{}", "a".repeat(7 * 40)),
        "[REDACTED:text]",
    );
}

#[test]
fn invalid_ids_become_numbered_ids() {
    for id in [
        "id]with]brackets",
        "id\nnewline",
        "id\"quote",
        "../../etc",
        "<script>x</script>",
        "",
        "shape-jwt",
        "ідентифікатор",
        &"a".repeat(300),
    ] {
        check(
            &[("fine", "another-value-1"), (id, KEY)],
            &format!("k {KEY}"),
            "k [REDACTED:secret-2]",
        );
    }
    for id in ["openai-prod", "vault/prod/db", "a.b:c@d", "A"] {
        check(
            &[(id, KEY)],
            &format!("k {KEY}"),
            &format!("k [REDACTED:{id}]"),
        );
    }
}

#[test]
fn an_id_containing_a_value_is_replaced() {
    check(
        &[("vault/hunter2-hunter2", KEY), ("other", "hunter2-hunter2")],
        &format!("use {KEY}"),
        "use [REDACTED:secret-1]",
    );
    check(
        &[(KEY, KEY)],
        &format!("use {KEY}"),
        "use [REDACTED:secret-1]",
    );
    check(
        &[("Kq7z-P2mW-9x4L-tB6v-Nc3R", KEY)],
        &format!("use {KEY}"),
        "use [REDACTED:secret-1]",
    );
    check(
        &[(KEY, KEY), ("b", "secret-1")],
        &format!("use {KEY} and secret-1"),
        "use [REDACTED:s1] and [REDACTED:b]",
    );
    check(
        &[("b", "shape-github-token")],
        &format!("ghp_{KEY}jY8sHd5Fg1TaUe0o"),
        "[REDACTED:b]",
    );
}

#[test]
fn the_longest_match_names_a_merged_span() {
    check(
        &[("short", "abcd1234"), ("long", "abcd1234efgh")],
        "x abcd1234efgh",
        "x [REDACTED:long]",
    );
    check(
        &[("first", "abcd1234wxyz"), ("second", "wxyzefgh5678")],
        "abcd1234wxyzefgh5678",
        "[REDACTED:first]",
    );
    check(&[("one", KEY), ("two", KEY)], KEY, "[REDACTED:one]");
}

#[test]
fn known_values_take_precedence_over_shapes() {
    let token = format!("ghp_{KEY}jY8sHd5Fg1TaUe0o");
    let known = redactor(&[("gh", &token)]).clean(&format!("a {token} b"), ShapePolicy::Redact);
    assert_eq!(
        (known.text.as_str(), known.values, known.shapes.len()),
        ("a [REDACTED:gh] b", 1, 0)
    );
    let unknown = Redactor::empty().clean(&format!("a {token} {token}"), ShapePolicy::Flag);
    assert_eq!(
        (unknown.values, unknown.shapes),
        (0, vec![ShapeKind::named("github-token").unwrap()])
    );
    check(
        &[("pw", "hunter2-hunter2")],
        "postgres://u:hunter2-hunter2@h/d",
        "postgres://u:[REDACTED:pw]@h/d",
    );
}

#[test]
fn values_below_the_floor_are_ignored_and_counted() {
    let redactor = redactor(&[
        ("a", "1234567"),
        ("b", "äöüßéñç"),
        ("c", "äöüßéñç!"),
        ("d", "12345678"),
    ]);
    assert_eq!((FLOOR_CHARS, redactor.len(), redactor.ignored()), (8, 2, 2));
    let cleaned = redactor.clean("1234567 äöüßéñç äöüßéñç! 12345678", ShapePolicy::Off);
    assert_eq!(
        cleaned.text.as_str(),
        "1234567 äöüßéñç [REDACTED:c] [REDACTED:d]"
    );
    assert!(Redactor::empty().is_empty() && Redactor::empty().ignored() == 0);
}

#[test]
fn derived_text_has_canonical_markers_only() {
    let redactor = redactor(&[("k", KEY)]);
    for (text, expected) in [
        (
            "User confirmed: [BYOK:hk_test_Kq7zP2mWBSnto3oi]\nasked about pricing".to_owned(),
            "User confirmed: [REDACTED:placeholder]\nasked about pricing",
        ),
        (
            "<REDACTED:db-creds> and [BYOK:team]".to_owned(),
            "[REDACTED:db-creds] and [REDACTED:team]",
        ),
        (
            format!("[BYOK:{KEY}] and <REDACTED:{KEY}>"),
            "[REDACTED:placeholder] and [REDACTED:placeholder]",
        ),
        (format!("<REDACTED:x {KEY}>"), "[REDACTED:placeholder]"),
    ] {
        let derived = redactor
            .clean_derived(&text, ShapePolicy::Redact)
            .text
            .into_string();
        assert_eq!(derived, expected);
        assert_eq!(
            redactor
                .clean_derived(&derived, ShapePolicy::Redact)
                .text
                .as_str(),
            derived
        );
    }
    assert_eq!(
        redactor
            .clean("[BYOK:team]", ShapePolicy::Redact)
            .text
            .as_str(),
        "[BYOK:team]",
        "fresh text keeps its own"
    );
}

#[test]
fn fingerprints_depend_on_values_and_key_only() {
    let key = [7; 32];
    let other_key = [8; 32];
    let print = |values: &[(&str, &str)]| redactor(values).fingerprint(&key);
    let base = print(&[("a", "value-one-1"), ("b", "value-two-2")]);
    assert_eq!(
        base,
        print(&[("x", "value-two-2"), ("y", "value-one-1"), ("z", "short")]),
        "order, ids and ignored values do not count"
    );
    for other in [
        print(&[]),
        print(&[("a", "value-one-1")]),
        print(&[("a", "value-one-1value"), ("b", "-two-2xxx")]),
        redactor(&[("a", "value-one-1"), ("b", "value-two-2")]).fingerprint(&other_key),
    ] {
        assert_ne!(base, other);
    }
}

#[test]
fn debug_output_omits_values() {
    let redactor = redactor(&[("k", KEY)]);
    let shown = format!("{redactor:?} {:?}", SecretValue::new("k", KEY));
    assert!(!shown.contains(KEY) && shown.contains("len: 1"), "{shown}");
    fn shareable<T: Clone + Send + Sync>(_: &T) {}
    shareable(&redactor);
}

#[test]
fn hostile_value_sets_and_texts_terminate() {
    let values: Vec<String> = (8..200)
        .map(|n| "a".repeat(n))
        .chain(["ab".repeat(2000)])
        .collect();
    let many = Redactor::new(
        values
            .iter()
            .enumerate()
            .map(|(n, value)| SecretValue::new(format!("v{n}"), value)),
    );
    assert_eq!(
        many.clean(&"a".repeat(20_000), ShapePolicy::Redact)
            .text
            .as_str(),
        "[REDACTED:v191]"
    );
    assert_eq!(
        many.clean(&"A b".repeat(5_000), ShapePolicy::Redact).values,
        1
    );
    let one = redactor(&[("k", KEY)]);
    for text in [
        "eyJ".repeat(20_000),
        "token=".repeat(10_000),
        "-----BEGIN PRIVATE KEY-----".repeat(2_000),
        "\\u0041%41&#65;".repeat(4_000),
        "QUFB".repeat(20_000),
        "[REDACTED:".repeat(6_000),
        "://a:".repeat(10_000),
    ] {
        let cleaned = one.clean(&text, ShapePolicy::Flag);
        assert_eq!(cleaned.text.as_str(), text);
    }
}
