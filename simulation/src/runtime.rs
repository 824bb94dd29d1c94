//! One history's runtime.
