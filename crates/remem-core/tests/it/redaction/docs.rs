//! Checks that docs/redaction.md lists every shape, in the words of the table itself.

#[test]
fn every_shape_is_documented() {
    let documented = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/redaction.md"
    ))
    .unwrap();
    for (kind, doc) in remem_core::redact::shape_table() {
        let row = format!("| `{kind}` | {doc} |");
        assert!(documented.contains(&row), "docs/redaction.md lacks: {row}");
    }
}
