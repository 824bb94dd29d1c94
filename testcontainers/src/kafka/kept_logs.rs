//! Which cluster folders stay after a failure.
//!
//! A panic anywhere in the process marks the folders of all clusters that are alive, and prints where they are. Whoever removes a
//! folder later (a drop, or the watchdog of a broker after the process ended) leaves a marked one alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// Guards only the list itself; the panic hook reads it from whatever thread panics.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The marker in a cluster's folder that keeps it.
pub(crate) const KEEP: &str = "keep";

/// Keeps `folder` if this process panics from now on.
pub(crate) fn watch(folder: &Path) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            previous(info);
            for folder in LIVE.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                mark(folder);
                eprintln!("logs of the Kafka cluster are kept in {}", folder.display());
            }
        }));
    });
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_path_buf());
}

/// Marks the folder as one to keep.
pub(crate) fn mark(folder: &Path) {
    // A folder that can not be written to is not removed either, or gone already.
    let _ = fs::write(folder.join(KEEP), "");
}

/// Ends the watch and removes the folder, unless it is marked.
pub(crate) fn release(folder: &Path) {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|live| live != folder);
    if !folder.join(KEEP).exists() {
        // What is left lies in the temporary folder and harms nobody.
        let _ = fs::remove_dir_all(folder);
    }
}
