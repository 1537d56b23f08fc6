//! The host's secret as a file of the embedded store: `host.key`, 32 bytes that only the owner reads.

use super::error::{CopyError, End};
use super::side::Secret;
use std::fs;
use std::io::{Error, ErrorKind, Write};
use std::path::Path;

const FILE: &str = "host.key";

pub(super) fn read(folder: &Path, end: End) -> Result<Option<Secret>, CopyError> {
    match fs::read(folder.join(FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CopyError::SecretFile(end, error.to_string())),
        Ok(bytes) => match bytes.try_into() {
            Ok(secret) => Ok(Some(secret)),
            Err(_) => Err(CopyError::SecretFile(end, "it is not 32 bytes".to_owned())),
        },
    }
}

/// Written whole under another name and then linked: the file is complete whenever it is there, and an older one stays.
pub(super) fn keep(folder: &Path, secret: &Secret) -> Result<(), Error> {
    let fresh = folder.join(format!("{FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&fresh); // left by a process of the same number that crashed
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(secret)?;
    file.sync_all()?;
    let linked = fs::hard_link(&fresh, folder.join(FILE));
    fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// A folder that only its owner enters; one that is there stays as it is.
pub(super) fn private_folder(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    #[cfg(unix)]
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}
