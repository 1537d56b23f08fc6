//! Tables for people and for programs: on a terminal, as Markdown, as JSON. May not compute any
//! figure.

use remem::print_table;
use serde_json::{Map, Value, json};

/// The content of one cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// A share, from 0 to 1.
    Share(f64),
    /// A number of things.
    Count(u64),
    Ms(f64),
    /// No value, shown as a dash.
    None,
}

impl Cell {
    /// A cell with a text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A cell with a share, if there is one.
    pub fn share(share: Option<f64>) -> Cell {
        share.map_or(Cell::None, Cell::Share)
    }

    fn show(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Share(share) => format!("{share:.3}"),
            Cell::Count(count) => count.to_string(),
            Cell::Ms(ms) => format!("{ms:.1}"),
            Cell::None => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Share(number) | Cell::Ms(number) => json!(number),
            Cell::Count(count) => json!(count),
            Cell::None => Value::Null,
        }
    }
}

/// One table with its title.
#[derive(Clone, Debug)]
pub struct Section {
    pub title: String,
    /// An explanation for the reader.
    pub note: String,
    pub heading: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

impl Section {
    /// A table without rows.
    pub fn new(title: &str, note: &str, heading: &[&str]) -> Section {
        let heading = heading.iter().map(|&name| name.to_owned()).collect();
        Section {
            title: title.to_owned(),
            note: note.to_owned(),
            heading,
            rows: Vec::new(),
        }
    }

    fn shown(&self) -> Vec<Vec<String>> {
        self.rows
            .iter()
            .map(|row| row.iter().map(Cell::show).collect())
            .collect()
    }
}

/// Prints the tables on a terminal.
pub fn print(sections: &[Section]) {
    for section in sections {
        println!("\n{}", section.title);
        if !section.note.is_empty() {
            println!("{}", section.note);
        }
        let heading: Vec<String> = section
            .heading
            .iter()
            .map(|name| name.to_uppercase())
            .collect();
        print_table(
            &heading.iter().map(String::as_str).collect::<Vec<_>>(),
            section.shown(),
            "nothing",
        );
    }
}

/// Formats the tables as Markdown.
pub fn markdown(sections: &[Section]) -> String {
    let mut text = "# Recall\n".to_owned();
    let line = |cells: &[String]| {
        format!(
            "| {} |\n",
            cells
                .iter()
                .map(|cell| cell.replace('|', "\\|"))
                .collect::<Vec<_>>()
                .join(" | ")
        )
    };
    for section in sections {
        text += &format!("\n## {}\n\n", section.title);
        if !section.note.is_empty() {
            text += &format!("{}\n\n", section.note);
        }
        text += &line(&section.heading);
        text += &format!("|{}\n", "---|".repeat(section.heading.len()));
        text.extend(section.shown().iter().map(|row| line(row)));
    }
    text
}

/// Formats the tables as JSON: a row is an object with the names of the columns.
pub fn json(sections: &[Section]) -> Value {
    let row = |section: &Section, row: &[Cell]| -> Map<String, Value> {
        section
            .heading
            .iter()
            .cloned()
            .zip(row.iter().map(Cell::json))
            .collect()
    };
    let tables = sections.iter().map(|section| {
        let rows: Vec<_> = section
            .rows
            .iter()
            .map(|cells| row(section, cells))
            .collect();
        json!({"title": section.title, "rows": rows})
    });
    json!({"tables": tables.collect::<Vec<_>>()})
}
