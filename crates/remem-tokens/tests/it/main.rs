//! Texts with counts that are known from another implementation of the encoding. `compare known`
//! writes the file.

use serde_json::Value;

/// Each line is a text, the number of its repetitions, and the number of tokens of all of it.
#[test]
fn counts_match_the_reference() {
    let lines = include_str!("known.jsonl").lines();
    let mut texts = 0;
    for line in lines {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case[0].as_str().unwrap();
        let times = usize::try_from(case[1].as_u64().unwrap()).unwrap();
        let tokens = usize::try_from(case[2].as_u64().unwrap()).unwrap();
        let counted = remem_tokens::count(&text.repeat(times));
        assert_eq!(counted, tokens, "{times} times {text:?}");
        texts += 1;
    }
    assert!(texts > 900, "only {texts} texts");
}
