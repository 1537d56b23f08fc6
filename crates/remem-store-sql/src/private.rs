//! Files that only the owner of a data directory may read: the folder itself, and the host's secret
//! in it (`host.key`, 32 bytes).

use std::fs;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;

const SECRET_FILE: &str = "host.key";

/// Reads the host's secret; `None` if the folder has none yet.
pub fn read_secret(folder: &Path) -> Result<Option<[u8; 32]>> {
    match read_secret_file(&folder.join(SECRET_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Reads a secret from a file of any name.
pub fn read_secret_file(path: &Path) -> Result<[u8; 32]> {
    fs::read(path)?
        .try_into()
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not 32 bytes"))
}

/// Stores the host's secret. It is written whole under another name and then linked: the file is
/// complete whenever it exists, even after a crash. An existing file is left as it is, so of two
/// processes that start at once the first one decides.
pub fn store_secret(folder: &Path, secret: &[u8; 32]) -> Result<()> {
    let fresh = folder.join(format!("{SECRET_FILE}.{}", std::process::id()));
    let _ = fs::remove_file(&fresh); // left by a process of the same number that crashed
    let mut file = new_file(&fresh)?;
    file.write_all(secret)?;
    file.sync_all()?;
    let linked = fs::hard_link(&fresh, folder.join(SECRET_FILE));
    fs::remove_file(&fresh)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates a file that only its owner can read; fails if there is one already.
pub fn new_file(path: &Path) -> Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes all permissions of group and others from an existing file. A file that belongs to
/// another user stays as it is: its permissions are for that user to decide.
pub fn restrict_to_owner(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other?.permissions().mode(),
        };
        if mode & 0o077 != 0 {
            match fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)) {
                Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Creates a folder that only its owner can enter; an existing folder stays as it is.
pub fn create_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}
