//! Where a savepoint may lie.

use std::path::{Component, Path, PathBuf};

use super::SavepointError;

/// Refuses a target inside a state directory, also through symbolic links: a savepoint has to be there when the directory is
/// not, and the directory's files are the job's alone. Nothing is created.
///
/// # Errors
///
/// [`SavepointError::InsideStateDirectory`].
pub fn check_savepoint_target(state_directory: &Path, target: &Path) -> Result<(), SavepointError> {
    if resolved(target).starts_with(resolved(state_directory)) {
        return Err(SavepointError::InsideStateDirectory {
            path: target.to_owned(),
            directory: state_directory.to_owned(),
        });
    }
    Ok(())
}

/// The path without links, as far as it is there; the rest as it is written.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // What stands behind a `..` that could not be followed may be there.
    resolve_existing(&resolve_existing(&absolute))
}

fn resolve_existing(absolute: &Path) -> PathBuf {
    for ancestor in absolute.ancestors() {
        let Ok(mut resolved) = ancestor.canonicalize() else { continue };
        for component in absolute.strip_prefix(ancestor).unwrap_or(Path::new("")).components() {
            match component {
                Component::ParentDir => {
                    resolved.pop();
                }
                other => resolved.push(other),
            }
        }
        return resolved;
    }
    absolute.to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_target_inside_the_state_directory_is_refused_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("state/store")).unwrap();
        fs::create_dir_all(path("other")).unwrap();
        symlink(path("state/store"), path("link")).unwrap();
        symlink(path("state"), path("state-link")).unwrap();
        for inside in [
            "state",
            "state/sp",
            "state/store/sp",
            "state/not/there/sp",
            "link/sp",
            "link/../sp",
            "other/../state/sp",
            "nowhere/../state/sp",
            "nowhere/../link/sp",
        ] {
            for directory in ["state", "state-link", "other/../state"] {
                let refused = check_savepoint_target(&path(directory), &path(inside)).unwrap_err();
                let text = refused.to_string();
                assert!(text.contains("is inside the state directory"), "{inside}: {text}");
            }
        }
        for outside in ["sp", "state-2", "state/../sp", "other/sp", "state.sp", "link/../../sp"] {
            for directory in ["state", "state-link"] {
                check_savepoint_target(&path(directory), &path(outside)).unwrap();
            }
        }
    }
}
