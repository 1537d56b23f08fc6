//! One table as Markdown and as JSON.

use remem_eval::report::{Cell, Section, json, markdown};
use serde_json::json;

#[test]
fn a_table_is_written_as_markdown_and_json() {
    let mut section = Section::new("Figures", "How to read it.", &["way", "share", "count"]);
    section.rows.push(vec![
        Cell::text("a|b"),
        Cell::Share(0.12345),
        Cell::Count(3),
    ]);
    section
        .rows
        .push(vec![Cell::text("c"), Cell::None, Cell::Count(0)]);
    let expected = "# Recall\n\n## Figures\n\nHow to read it.\n\n| way | share | count |\n|---|---|---|\n| a\\|b | 0.123 | 3 |\n| c | - | 0 |\n";
    assert_eq!(markdown(&[section.clone()]), expected);
    let rows = json(&[section])["tables"][0]["rows"].clone();
    assert_eq!(
        rows,
        json!([{"way": "a|b", "share": 0.12345, "count": 3}, {"way": "c", "share": null, "count": 0}])
    );
}
