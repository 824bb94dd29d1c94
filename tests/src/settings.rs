//! Settings of the long forms of tests.

/// A number from the environment, or the short form's.
///
/// # Panics
///
/// If what is there is not a number.
#[must_use]
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    }
}
