//! `remem redact`: prints what a write would store of a text. It is for trying secrets files and
//! for checking the redactor.

use crate::cli::RedactArgs;
use crate::host;
use anyhow::Context;
use remem_core::redact::jsonl;
use remem_core::{Redactor, ShapePolicy};
use std::io::{BufRead, BufWriter, Read, Write};

pub fn run(redact: &RedactArgs) -> anyhow::Result<()> {
    if redact.jsonl {
        return answer_lines();
    }
    let values = match &redact.secrets_file {
        Some(file) => host::registered_secrets(file)?
            .into_iter()
            .map(|(_, value)| value)
            .collect(),
        None => Vec::new(),
    };
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input is not UTF-8 text")?;
    print!(
        "{}",
        Redactor::new(values)
            .clean(&text, ShapePolicy::Redact)
            .text
            .as_str()
    );
    Ok(())
}

/// Answers each line of standard input: a request to the redactor, as JSON.
fn answer_lines() -> anyhow::Result<()> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.with_context(|| format!("line {} is not UTF-8 text", number + 1))?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = jsonl::handle_line(&line).with_context(|| format!("line {}", number + 1))?;
        writeln!(output, "{answer}")?;
    }
    Ok(output.flush()?)
}
