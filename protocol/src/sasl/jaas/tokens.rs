//! Cutting a JAAS text into words, quoted texts and signs, as Java's `StreamTokenizer` does.

use std::iter::Peekable;
use std::str::Chars;

use super::{JaasError, JaasProblem};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Quoted(String),
    Equals,
    Semicolon,
    End,
}

pub(super) struct Tokens<'a> {
    chars: Peekable<Chars<'a>>,
    /// Characters taken.
    taken: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { chars: text.chars().peekable(), taken: 0 }
    }

    /// The next token and where it begins.
    pub(super) fn next(&mut self) -> Result<(Token, usize), JaasError> {
        let first = self.skip_blanks()?;
        let at = self.taken + usize::from(first.is_none());
        let token = match first {
            None => Token::End,
            Some('=') => Token::Equals,
            Some(';') => Token::Semicolon,
            Some(quote @ ('"' | '\'')) => Token::Quoted(self.quoted(quote, at)?),
            Some(first) => Token::Word(self.word(first)),
        };
        Ok((token, at))
    }

    fn take(&mut self) -> Option<char> {
        let taken = self.chars.next();
        self.taken += usize::from(taken.is_some());
        taken
    }

    /// The first character that is neither blank nor comment.
    fn skip_blanks(&mut self) -> Result<Option<char>, JaasError> {
        loop {
            match self.take() {
                // Java counts control characters as blanks.
                Some(c) if c <= ' ' => {}
                Some('/') if self.chars.peek() == Some(&'/') => {
                    while self.take().is_some_and(|c| c != '\n' && c != '\r') {}
                }
                Some('/') if self.chars.peek() == Some(&'*') => self.skip_comment()?,
                other => return Ok(other),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), JaasError> {
        let position = self.taken;
        self.take();
        let mut before = ' ';
        while let Some(c) = self.take() {
            if before == '*' && c == '/' {
                return Ok(());
            }
            before = c;
        }
        Err(JaasError { position, problem: JaasProblem::OpenComment })
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        while let Some(c) = self.chars.peek().copied()
            && c > ' '
            && !matches!(c, '=' | ';' | '"' | '\'')
        {
            word.push(c);
            self.take();
        }
        word
    }

    fn quoted(&mut self, quote: char, at: usize) -> Result<String, JaasError> {
        let open = JaasError { position: at, problem: JaasProblem::OpenQuotes };
        let mut text = String::new();
        loop {
            match self.take() {
                None | Some('\n' | '\r') => return Err(open),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => {
                    let escaped = self.take().ok_or_else(|| open.clone())?;
                    text.push(self.escape(escaped));
                }
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, first: char) -> char {
        match first {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'a' => '\u{7}',
            '0'..='7' => {
                // One to three digits, three only below 256.
                let mut code = u32::from(first) - u32::from('0');
                let most = if first <= '3' { 2 } else { 1 };
                for _ in 0..most {
                    let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.take();
                }
                char::from_u32(code).unwrap_or(first)
            }
            other => other,
        }
    }
}
