//! The program that people run holds no marker of `scripts/sabotage`.
#![cfg(not(sabotage))]

use memchr::memmem;

/// The switch reads its variables by these names, and a marker is compiled with its own.
#[test]
fn the_binary_contains_no_sabotage_marker() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_remem")).expect("the program under test");
    let table = include_str!("../../../../scripts/sabotage.tsv");
    let names: Vec<&str> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert!(names.len() > 300, "the table of markers is not read");
    let holds = |text: &str| memmem::find(&program, text.as_bytes()).is_some();
    for text in names.into_iter().chain(["SABOTAGE_SQL_RIGHT"]) {
        assert!(!holds(text), "{text} is in the program");
    }
    assert!(holds("Remembrancer"), "the search finds nothing");
}
