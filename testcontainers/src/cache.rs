//! The cache folder outside the repository, filled once however many test processes ask at the same time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The folder for everything that is fetched or compiled once per machine.
///
/// `MILLSTREAM_CACHE_DIR` if set, else `$XDG_CACHE_HOME/millstream`, else `$HOME/.cache/millstream`, else a folder below the
/// system's temporary folder.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("MILLSTREAM_CACHE_DIR")
        .or_else(|| from("XDG_CACHE_HOME").map(|dir| dir.join("millstream")))
        .or_else(|| from("HOME").map(|dir| dir.join(".cache/millstream")))
        .unwrap_or_else(|| std::env::temp_dir().join("millstream-cache"))
}

/// Makes `folder` with `fill` if it does not exist yet, and returns once it is complete.
///
/// `fill` writes into a folder beside it that is renamed at the end, so a folder that exists is whole. A lock file keeps
/// parallel processes from doing the work twice.
///
/// # Errors
///
/// What `fill` returns, or the file system's error turned into `E`.
pub(crate) fn fill_once<E: From<io::Error>>(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let lock = File::create(beside(folder, "lock"))?;
    lock.lock()?;
    if folder.is_dir() {
        return Ok(());
    }
    let staging = beside(folder, "partial");
    if staging.exists() {
        fs::remove_dir_all(&staging)?;
    }
    fs::create_dir_all(&staging)?;
    fill(&staging)?;
    fs::rename(&staging, folder)?;
    Ok(())
}

fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(suffix);
    folder.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn folder_is_filled_once_by_many_threads() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let fills = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    fill_once::<io::Error>(&folder, |staging| {
                        fills.fetch_add(1, Ordering::Relaxed);
                        fs::write(staging.join("x"), "whole")
                    })
                    .unwrap();
                    assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "whole");
                });
            }
        });
        assert_eq!(fills.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn failed_fill_leaves_no_folder_and_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("jars");
        let failed = fill_once::<io::Error>(&folder, |_| Err(io::Error::other("no network")));
        assert!(failed.is_err());
        assert!(!folder.exists());
        fill_once::<io::Error>(&folder, |_| Ok(())).unwrap();
        assert!(folder.is_dir());
    }
}
