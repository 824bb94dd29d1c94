//! Files that a user names: whatever they are, no more than a bound of them is read.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Configuration, tokens, passwords.
pub(crate) const TEXT: u64 = 1 << 20;
/// Stores of certificates and keys.
pub(crate) const STORE: u64 = 16 << 20;

/// All of a file. One that is larger than `limit` bytes is refused, also if it does not tell its size, as a device.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        let text = format!("it is larger than {limit} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(content)
}

/// The same, of text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path, TEXT)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is no UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_refused() {
        let endless = read(Path::new("/dev/zero"), 1_000).expect_err("endless");
        assert_eq!(endless.kind(), ErrorKind::FileTooLarge);
        assert!(read_text(Path::new("/no/such/file")).is_err());
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "text").expect("written");
        assert_eq!(read(file.path(), 4).expect("as large as it may be"), b"text");
        assert!(read(file.path(), 3).is_err());
    }
}
