//! Kept inputs: one text file a target, one input a line, in Rust's notation of byte strings.
//!
//! What is kept was found by fuzzing and reaches code that the generated [`seeds`](crate::seeds()) do not, or once broke a
//! promise. Lines that begin with `#` say why.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the inputs of a target are kept.
#[must_use]
pub fn path(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.txt"))
}

/// The inputs kept for a target; none if it has no file.
///
/// # Errors
///
/// If the file can not be read, or a line is no byte string.
pub fn read(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let text = match fs::read_to_string(path(target)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| unescape(line).ok_or_else(|| io::Error::other(line.to_owned()))).collect()
}

/// Adds inputs to those kept for a target: each once, the shortest first, comments at the top.
///
/// # Errors
///
/// If the file can not be read or written.
pub fn add(target: &str, inputs: Vec<Vec<u8>>) -> io::Result<()> {
    let old = fs::read_to_string(path(target)).unwrap_or_default();
    let comments: Vec<&str> = old.lines().filter(|line| line.starts_with('#')).collect();
    let mut all = read(target)?;
    all.extend(inputs);
    all.sort_unstable_by_key(|input| (input.len(), input.clone()));
    all.dedup();
    let mut text: String = comments.iter().map(|line| format!("{line}\n")).collect();
    for input in all {
        text.push_str(&escape(&input));
        text.push('\n');
    }
    fs::write(path(target), text)
}

fn escape(input: &[u8]) -> String {
    let escaped = input.escape_ascii().to_string();
    // A comment's sign at the beginning is data.
    match escaped.strip_prefix('#') {
        Some(rest) => format!("\\x23{rest}"),
        None => escaped,
    }
}

fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut input = Vec::new();
    let mut rest = line.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            input.push(*byte);
            continue;
        }
        let [kind, after @ ..] = rest else { return None };
        rest = after;
        input.push(match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'\\' | b'\'' | b'"' => *kind,
            b'x' => {
                let digits = str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                u8::from_str_radix(digits, 16).ok()?
            }
            _ => return None,
        });
    }
    Some(input)
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn any_bytes_come_back() {
        for first in 0..=u8::MAX {
            let input = [first, b'#', b'\\', b'\n', first, 0];
            assert_eq!(unescape(&escape(&input)), Some(input.to_vec()));
            assert!(!escape(&input).starts_with('#') && !escape(&input).contains('\n'));
        }
        assert_eq!(unescape("\\x1"), None);
        assert_eq!(unescape("\\"), None);
    }
}
