//! House rules as code: checks that run as a program and also as tests, so that CI has no secret
//! rules.
//!
//! `cargo run -p xtask` prints every breach; `cargo test -p xtask` fails on the first run that has
//! one.

mod dependencies;
mod files;
mod literals;
mod sql;
mod words;

use std::path::{Path, PathBuf};

fn main() {
    let breaches = all();
    for breach in &breaches {
        println!("{breach}");
    }
    if !breaches.is_empty() {
        std::process::exit(1);
    }
    println!("tidy");
}

fn all() -> Vec<String> {
    let root = root();
    [
        files::check(&root),
        sql::check(&root),
        dependencies::check(&root),
        words::check(&root),
    ]
    .concat()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_breaks_no_house_rule() {
        let breaches = super::all();
        assert!(breaches.is_empty(), "\n{}", breaches.join("\n"));
    }
}
