//! Files of lines, plain or gzip: what `demo --input`, `dev --load` and `produce` read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::bufread::MultiGzDecoder;

use crate::exit_code;

/// Longest line: with a batch's header it still fits into what a broker takes by default (`message.max.bytes`).
const LINE_BYTES_MAX: usize = 1_048_000;

/// An input file can not be used. Each text names the file and the next step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("failed to open {}: {source}; give the path of a text or gzip file that can be read", .path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is a directory; give one file, text or gzip", .path.display())]
    Directory { path: PathBuf },
    #[error("failed to read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is not whole gzip ({source}, after line {line}); `gzip -t` tests it: copy it again, or make it again from its source",
        .path.display()
    )]
    Gzip { path: PathBuf, line: usize, source: io::Error },
    #[error(
        "line {line} of {} is longer than {longest} bytes, more than a broker takes by default; is it a file of lines?",
        .path.display()
    )]
    LongLine { path: PathBuf, line: usize, longest: usize },
    #[error("line {line} of {} is not a flight event: {reason}; give JSON lines with origin, dep_delay, arr_delay, landed_ms", .path.display())]
    NoFlight { path: PathBuf, line: usize, reason: String },
    #[error("line {line} of {} is no record: {reason}", .path.display())]
    NoRecord { path: PathBuf, line: usize, reason: String },
    #[error("{} holds no lines; give a file with at least one", .path.display())]
    Empty { path: PathBuf },
}

impl InputError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Open { .. } | Self::Directory { .. } | Self::Read { .. } => exit_code::NO_INPUT,
            Self::Gzip { .. }
            | Self::LongLine { .. }
            | Self::NoFlight { .. }
            | Self::NoRecord { .. }
            | Self::Empty { .. } => exit_code::DATA,
        }
    }
}

/// The lines of a file, one after another. Blank ones are left out, unless they are asked for.
pub(crate) struct Lines<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    path: PathBuf,
    gzip: bool,
    line: usize,
    keeps_blank: bool,
    longest: usize,
}

impl std::fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("path", &self.path)
            .field("gzip", &self.gzip)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl<'a> Lines<'a> {
    /// Opens a file; gzip is known by its first bytes.
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        let failed = |source| InputError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(InputError::Directory { path: path.to_owned() });
        }
        Self::of(path, BufReader::new(file))
    }

    /// The lines of `reader`, called `path` in errors.
    pub(crate) fn of(
        path: &Path,
        mut reader: impl BufRead + Send + 'a,
    ) -> Result<Self, InputError> {
        let path = path.to_owned();
        let gzip = match reader.fill_buf() {
            Ok(begin) => begin.starts_with(&[0x1f, 0x8b]),
            Err(source) => return Err(InputError::Read { path, source }),
        };
        let reader: Box<dyn BufRead + Send + 'a> = if gzip {
            Box::new(BufReader::new(MultiGzDecoder::new(reader)))
        } else {
            Box::new(reader)
        };
        let longest = LINE_BYTES_MAX;
        Ok(Self { reader, path, gzip, line: 0, keeps_blank: false, longest })
    }

    /// Also blank lines, and lines up to `longest` bytes.
    pub(crate) fn all_up_to(self, longest: usize) -> Self {
        Self { keeps_blank: true, longest, ..self }
    }

    /// The next line without its end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, InputError> {
        loop {
            let mut line = Vec::new();
            let limit = u64::try_from(self.longest).unwrap_or(u64::MAX).saturating_add(2);
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut line);
            match read {
                Err(source) => return Err(self.unreadable(source)),
                Ok(0) => return Ok(None),
                Ok(_) => self.line += 1,
            }
            if line.last() == Some(&b'\n') {
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
            }
            if line.len() > self.longest {
                let (path, line, longest) = (self.path.clone(), self.line, self.longest);
                return Err(InputError::LongLine { path, line, longest });
            }
            if self.keeps_blank || !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
    }

    /// That the line read last is not what it should be.
    pub(crate) fn no_flight(&self, reason: impl ToString) -> InputError {
        let reason = reason.to_string();
        InputError::NoFlight { path: self.path.clone(), line: self.line, reason }
    }

    /// That the line read last can not be made a record of.
    pub(crate) fn no_record(&self, reason: impl ToString) -> InputError {
        let reason = reason.to_string();
        InputError::NoRecord { path: self.path.clone(), line: self.line, reason }
    }

    /// That there was no line at all.
    pub(crate) fn empty(&self) -> InputError {
        InputError::Empty { path: self.path.clone() }
    }

    fn unreadable(&self, source: io::Error) -> InputError {
        let path = self.path.clone();
        // An error with a number is the system's; any other is the decoder's.
        if self.gzip && source.raw_os_error().is_none() {
            InputError::Gzip { path, line: self.line, source }
        } else {
            InputError::Read { path, source }
        }
    }
}

/// Timestamp of the records made of lines: the time of loading, as with any producer that sets none.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<String>, InputError> {
        let mut lines = Lines::of(Path::new("events"), bytes)?;
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push(String::from_utf8(line).expect("text"));
        }
        Ok(found)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("compressed");
        encoder.finish().expect("compressed")
    }

    #[test]
    fn plain_and_gzip_give_the_same_lines() {
        let text = "a\r\n\n  \nb\nc";
        assert_eq!(lines(text.as_bytes()).expect("lines"), ["a", "b", "c"]);
        assert_eq!(lines(&gzip(text)).expect("lines"), ["a", "b", "c"]);
        let members = [gzip("a\n"), gzip("b\n")].concat();
        assert_eq!(lines(&members).expect("lines"), ["a", "b"]);
        assert!(lines(b"").expect("lines").is_empty());
    }

    #[test]
    fn blank_lines_are_kept_where_they_are_asked_for() {
        let mut lines = Lines::of(Path::new("events"), &b"a\n\n b\r\n"[..]).expect("lines");
        lines = lines.all_up_to(2);
        let mut found = Vec::new();
        while let Some(line) = lines.next().expect("a line") {
            found.push(line);
        }
        assert_eq!(found, [&b"a"[..], b"", b" b"]);
        let mut lines = Lines::of(Path::new("events"), &b"abc"[..]).expect("lines").all_up_to(2);
        let error = lines.next().expect_err("too long");
        assert!(matches!(error, InputError::LongLine { longest: 2, .. }), "{error:?}");
    }

    #[test]
    fn a_file_that_can_not_be_used_is_named() {
        let whole = gzip(&"flight\n".repeat(1000));
        for cut in [3, 10, whole.len() / 2, whole.len() - 1] {
            let error = lines(&whole[..cut]).expect_err("cut");
            assert!(matches!(error, InputError::Gzip { .. }), "{error:?}");
            assert!(error.to_string().contains("events"), "{error}");
        }
        let longest = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(lines(format!("{longest}\r\ny").as_bytes()).expect("lines").len(), 2);
        let error = lines(format!("a\n{longest}x\n").as_bytes()).expect_err("too long");
        assert!(matches!(error, InputError::LongLine { line: 2, .. }), "{error:?}");
    }
}
