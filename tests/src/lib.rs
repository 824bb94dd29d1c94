//! End-to-end tests: exactly-once, interoperability, errors, the command line.
