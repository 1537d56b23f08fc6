//! Searches everything under a folder, as raw bytes on the disk.

use std::path::{Path, PathBuf};

/// Every file under a folder with what it holds; bytes that are not text are replaced, which cannot
/// hide text between them. A file that goes away while we look holds nothing any more.
pub fn all(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let Ok(children) = std::fs::read_dir(folder) else {
        return found;
    };
    for path in children.map(|child| child.expect("a folder can be listed").path()) {
        if path.is_dir() {
            found.extend(all(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.push((path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    found
}

/// Returns the needles that are in files under a folder, as phrases for a failure message.
pub fn find<'a>(folder: &Path, needles: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    find_in(&all(folder), needles)
}

/// Returns the needles that are in these files, as phrases for a failure message.
pub fn find_in<'a>(
    files: &[(PathBuf, String)],
    needles: impl IntoIterator<Item = &'a String>,
) -> Vec<String> {
    assert!(
        files.iter().any(|(_, text)| !text.is_empty()),
        "there is nothing to look through"
    );
    let mut found = Vec::new();
    for needle in needles {
        for (path, _) in files
            .iter()
            .filter(|(_, text)| text.contains(needle.as_str()))
        {
            found.push(format!(
                "{needle:?} in {}",
                path.file_name().unwrap_or_default().to_string_lossy()
            ));
        }
    }
    found
}
