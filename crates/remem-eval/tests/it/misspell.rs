//! Questions with a misspelt word.

use remem_eval::dataset::EvalQuestion;
use remem_eval::misspell::{with_misspelling, without_longest_word};

fn question(text: &str) -> EvalQuestion {
    let evidence = Vec::new();
    let sessions = Vec::new();
    EvalQuestion {
        memory: 0,
        text: text.to_owned(),
        evidence,
        sessions,
        category: String::new(),
        answerable: true,
        at: None,
    }
}

#[test]
fn the_longest_word_is_misspelt() {
    let asked = vec![question("When did Melanie paint it?"); 4];
    let texts: Vec<String> = with_misspelling(&asked)
        .into_iter()
        .map(|question| question.text)
        .collect();
    let expected = ["Melnie", "Melaanie", "Melbnie", "Mealnie"]
        .map(|name| format!("When did {name} paint it?"));
    assert_eq!(texts, expected);
    assert_eq!(without_longest_word(&asked)[0].text, "When did  paint it?");
    assert_eq!(
        with_misspelling(&[question("Is it é 12345?")])[0].text,
        "Is it é 12345?",
        "nothing is long enough"
    );
}
