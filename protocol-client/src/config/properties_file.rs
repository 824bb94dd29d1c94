//! Java's `.properties` format.

use std::iter::Peekable;
use std::str::Chars;

/// Names and values of a text in Java's properties format (`java.util.Properties`), in their order, also of a
/// name that stands there twice, with its comments (`#`, `!`), separators (`=`, `:`,
/// blank), continued lines and escapes. Any text can be read; what makes no sense becomes a name without a value.
#[must_use]
pub fn parse_properties(text: &str) -> Vec<(String, String)> {
    numbered_properties(text).into_iter().map(|(_, name, value)| (name, value)).collect()
}

/// The same, with the number of the line that each begins in, from 1.
pub(super) fn numbered_properties(text: &str) -> Vec<(usize, String, String)> {
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let lines = logical_lines(&text).into_iter();
    lines
        .map(|(number, line)| {
            let (name, value) = split(&line);
            (number, name, value)
        })
        .collect()
}

/// Lines without comments, continued ones joined, leading blanks dropped, with their numbers.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (number, line) in (1..).zip(text.split(['\n', '\r'])) {
        let line = line.trim_start_matches(is_blank);
        if !continued && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = line.chars().rev().take_while(|c| *c == '\\').count();
        let goes_on = backslashes % 2 == 1;
        let part = if goes_on { line.strip_suffix('\\').unwrap_or(line) } else { line };
        match lines.last_mut() {
            Some((_, last)) if continued => last.push_str(part),
            _ => lines.push((number, part.to_owned())),
        }
        continued = goes_on;
    }
    lines
}

fn split(line: &str) -> (String, String) {
    let mut chars = line.chars().peekable();
    let mut name = String::new();
    while let Some(c) = chars.next_if(|c| !is_blank(*c) && *c != '=' && *c != ':') {
        push(&mut name, c, &mut chars);
    }
    while chars.next_if(|c| is_blank(*c)).is_some() {}
    if chars.next_if(|c| *c == '=' || *c == ':').is_some() {
        while chars.next_if(|c| is_blank(*c)).is_some() {}
    }
    let mut value = String::new();
    while let Some(c) = chars.next() {
        push(&mut value, c, &mut chars);
    }
    (name, value)
}

/// Takes a character, with what follows a backslash.
fn push(out: &mut String, c: char, chars: &mut Peekable<Chars<'_>>) {
    if c != '\\' {
        out.push(c);
        return;
    }
    match chars.next() {
        Some('t') => out.push('\t'),
        Some('n') => out.push('\n'),
        Some('r') => out.push('\r'),
        Some('f') => out.push('\u{c}'),
        Some('u') => out.push(unicode(chars)),
        Some(other) => out.push(other),
        None => {}
    }
}

/// Four hexadecimal digits; two such escapes may make one character beyond the first 65,536.
fn unicode(chars: &mut Peekable<Chars<'_>>) -> char {
    let first = four_digits(chars);
    if (0xd800..0xdc00).contains(&first) {
        let mut ahead = chars.clone();
        if ahead.next() == Some('\\') && ahead.next() == Some('u') {
            let second = four_digits(&mut ahead);
            if (0xdc00..0xe000).contains(&second) {
                *chars = ahead;
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
        }
    }
    char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn four_digits(chars: &mut Peekable<Chars<'_>>) -> u32 {
    let mut code = 0;
    for _ in 0..4 {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(16)) else { break };
        code = code * 16 + digit;
        chars.next();
    }
    code
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::{numbered_properties, parse_properties};

    #[test]
    fn the_format_is_javas() {
        let text = "# comment\n! comment\n\n a = 1\nb:2\nc 3\nd=\n e\\ f = g\\:h \nlong = one \\\r\n    two\\\\\n# no = comment\nu=\\u00e9\\ud83d\\ude00\\n\r\nlast=x\\";
        let parsed = parse_properties(text);
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e f", "g:h "),
            ("long", "one two\\"),
            ("u", "é😀\n"),
            ("last", "x"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(parsed, expected);
        let lines: Vec<_> = numbered_properties(text).into_iter().map(|(line, ..)| line).collect();
        assert_eq!(lines, [4, 5, 6, 7, 8, 9, 12, 13]);
    }
}
