//! The entries for `reads`, `import` and `footprint`: one file of JSON lines, and one data
//! directory with them, shared by all benchmarks of one run.

use crate::host::{self, command, timed};
use crate::text::{SeededRandom, WordList};
use crate::{Setup, table};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The memory that holds the corpus.
pub const MEMORY: &str = "bench";
/// The approximate length of a text.
pub const CONTENT_BYTES: usize = 200;
/// The number of different words; most of them occur in texts of this kind and number.
const WORDS: usize = 20_000;
/// The number of tags; every entry has one of them.
const TAGS: usize = 20;
/// The creation time of the first entry; each further one is a second later.
const FIRST_MS: u64 = 1_700_000_000_000;

/// Makes the texts of entries: the same number gives the same text.
pub struct Contents(pub WordList);

impl Contents {
    pub fn new() -> Contents {
        Contents(WordList::new(WORDS))
    }

    pub fn at(&self, number: usize) -> String {
        self.0
            .prose(&mut SeededRandom::new(1_000 + number as u64), CONTENT_BYTES)
    }
}

/// The id of the entry with this number.
pub fn id(number: usize) -> String {
    format!("bench-{number:07}")
}

pub struct Corpus {
    pub file: PathBuf,
    pub bytes: u64,
    /// The bytes of the texts alone.
    pub content_bytes: u64,
    pub contents: Contents,
    /// A data directory with all entries, once there is one.
    loaded: Option<PathBuf>,
}

impl Corpus {
    pub fn write(setup: &Setup) -> anyhow::Result<Corpus> {
        let file = setup.folder.path().join("corpus.jsonl");
        let contents = Contents::new();
        let mut content_bytes = 0;
        let mut output = BufWriter::new(File::create(&file)?);
        for number in 0..setup.entries {
            let content = contents.at(number);
            content_bytes += content.len() as u64;
            let tags = [format!("topic-{}", number % TAGS)];
            let created_at = FIRST_MS + 1_000 * number as u64;
            writeln!(
                output,
                "{}",
                serde_json::json!({"id": id(number), "content": content, "tags": tags, "createdAt": created_at})
            )?;
        }
        output.flush()?;
        let bytes = file.metadata()?.len();
        eprintln!("wrote {} entries, {}", setup.entries, table::mib(bytes));
        Ok(Corpus {
            file,
            bytes,
            content_bytes,
            contents,
            loaded: None,
        })
    }

    /// Registers a data directory that a benchmark has filled.
    pub fn set_loaded(&mut self, data: PathBuf) {
        self.loaded = Some(data);
    }

    /// A data directory with all entries; filled now if no benchmark has done so.
    pub fn loaded(&mut self, setup: &Setup) -> anyhow::Result<PathBuf> {
        if let Some(data) = &self.loaded {
            return Ok(data.clone());
        }
        let data = setup.new_folder("loaded-")?;
        let (elapsed, _) = import(setup, &data, &self.file, &["--local"])?;
        eprintln!(
            "filled a data directory in {:.1} s, {}",
            elapsed.as_secs_f64(),
            table::mib(host::bytes_below(&data)?)
        );
        self.loaded = Some(data.clone());
        Ok(data)
    }
}

/// Runs `remem import` on a file.
pub fn import(
    setup: &Setup,
    data: &Path,
    file: &Path,
    place: &[&str],
) -> anyhow::Result<(std::time::Duration, String)> {
    let mut command = command(setup, data);
    command
        .args(place)
        .args(["--json", "import", "--ref", MEMORY])
        .arg(file);
    timed(command)
}
