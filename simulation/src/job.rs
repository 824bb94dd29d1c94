//! The jobs under test.
