//! `sasl.jaas.config`, as it is pasted from a Java configuration: one login module with its options.
//!
//! The grammar is that of Kafka's `JaasConfig`: `class flag name=value … ;`, values bare or in single or double quotes with
//! Java's escapes, comments of both kinds. Two things are read more kindly: a bare value may be a number or have any
//! character but blanks, quotes, `=` and `;`, and the last `;` is still demanded but named in the error.

mod tokens;

use std::fmt;

use thiserror::Error;

use super::Secret;
use tokens::{Token, Tokens};

/// One login module and its options.
#[derive(Clone, PartialEq, Eq)]
pub struct JaasModule {
    /// The class as written, such as `org.apache.kafka.common.security.plain.PlainLoginModule`.
    pub class: String,
    /// Names and values in their order. Any of them may hold a secret.
    pub options: Vec<(String, Secret)>,
}

/// The text can not be read. Never quotes a value: it may be the password.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("character {position}: {problem}")]
pub struct JaasError {
    /// Where, counted in characters from 1.
    pub position: usize,
    /// What.
    pub problem: JaasProblem,
}

/// What is wrong with a JAAS text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JaasProblem {
    /// Nothing there.
    #[error(
        "a login module is expected, as in org.apache.kafka.common.security.plain.PlainLoginModule required …;"
    )]
    NoModule,
    /// After the class there is no flag.
    #[error("a flag is expected after the login module: required")]
    NoFlag,
    /// A flag that JAAS does not have.
    #[error("the flag must be required, requisite, sufficient or optional")]
    UnknownFlag,
    /// An option without `=`.
    #[error("'=' is expected after the name of an option")]
    NoEquals,
    /// An option without a value.
    #[error("a value is expected after '='")]
    NoValue,
    /// Something that can not begin an option.
    #[error("the name of an option or ';' is expected")]
    NoOption,
    /// The text ends in quotes.
    #[error("the quotes that begin here are never closed")]
    OpenQuotes,
    /// The text ends in a comment.
    #[error("the comment that begins here is never closed")]
    OpenComment,
    /// The last `;` is missing.
    #[error("the text must end with ';'")]
    NoSemicolon,
    /// More than one module.
    #[error("one login module is allowed, and here begins another")]
    SecondModule,
    /// An option twice.
    #[error("this option is given twice")]
    RepeatedOption,
    /// Longer than any configuration: above 1 MiB.
    #[error("the text is too long")]
    TooLong,
}

impl JaasModule {
    /// Reads a `sasl.jaas.config`.
    ///
    /// # Errors
    ///
    /// [`JaasError`] with the place, if it is not exactly one module.
    pub fn parse(text: &str) -> Result<Self, JaasError> {
        if text.len() > LONGEST {
            return Err(JaasError { position: LONGEST + 1, problem: JaasProblem::TooLong });
        }
        let mut tokens = Tokens::new(text);
        let (class, at) = tokens.next()?;
        let Token::Word(class) = class else {
            return Err(JaasError { position: at, problem: JaasProblem::NoModule });
        };
        let (flag, position) = tokens.next()?;
        match flag {
            Token::Word(flag) if is_flag(&flag) => {}
            Token::Word(_) => {
                return Err(JaasError { position, problem: JaasProblem::UnknownFlag });
            }
            _ => return Err(JaasError { position, problem: JaasProblem::NoFlag }),
        }
        let mut module = Self { class, options: Vec::new() };
        loop {
            let (token, position) = tokens.next()?;
            match token {
                Token::Semicolon => break,
                Token::End => {
                    return Err(JaasError { position, problem: JaasProblem::NoSemicolon });
                }
                Token::Word(name) => module.read_option(&mut tokens, name, position)?,
                Token::Quoted(_) | Token::Equals => {
                    return Err(JaasError { position, problem: JaasProblem::NoOption });
                }
            }
        }
        let (token, position) = tokens.next()?;
        match token {
            Token::End => Ok(module),
            _ => Err(JaasError { position, problem: JaasProblem::SecondModule }),
        }
    }

    fn read_option(
        &mut self,
        tokens: &mut Tokens<'_>,
        name: String,
        at: usize,
    ) -> Result<(), JaasError> {
        if self.option(&name).is_some() {
            return Err(JaasError { position: at, problem: JaasProblem::RepeatedOption });
        }
        let (equals, position) = tokens.next()?;
        if equals != Token::Equals {
            return Err(JaasError { position, problem: JaasProblem::NoEquals });
        }
        let (value, position) = tokens.next()?;
        let (Token::Word(value) | Token::Quoted(value)) = value else {
            return Err(JaasError { position, problem: JaasProblem::NoValue });
        };
        self.options.push((name, Secret::new(value)));
        Ok(())
    }

    /// The class without its package: vendors move the package, the name stays.
    #[must_use]
    pub fn simple_class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or(&self.class)
    }

    /// The value of an option.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&Secret> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl fmt::Debug for JaasModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.options.iter().map(|(name, _)| name).collect();
        f.debug_struct("JaasModule").field("class", &self.class).field("options", &names).finish()
    }
}

fn is_flag(text: &str) -> bool {
    ["required", "requisite", "sufficient", "optional"]
        .iter()
        .any(|flag| flag.eq_ignore_ascii_case(text))
}

const LONGEST: usize = 1 << 20;

#[cfg(test)]
mod tests;
