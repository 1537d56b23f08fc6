//! The program that people run holds no marker of `scripts/sabotage`.
#![cfg(not(sabotage))]

/// Whether a program holds a text.
fn holds(program: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    let mut rest = program;
    while let Some(at) = rest.iter().position(|byte| *byte == text[0]) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// The switch reads its variables by these names, and a marker is compiled with its own.
#[test]
fn the_program_knows_no_break() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_remem")).expect("the program under test");
    let table = include_str!("../../../../scripts/sabotage.tsv");
    let names: Vec<&str> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert!(names.len() > 300, "the table of markers is not read");
    let some = names.iter().step_by(60).copied();
    for text in some.chain(["SABOTAGE_SQL_RIGHT"]) {
        assert!(!holds(&program, text), "{text} is in the program");
    }
    assert!(holds(&program, "Remembrancer"), "the search finds nothing");
}
