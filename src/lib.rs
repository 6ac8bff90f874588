//! Holds the tests, benchmarks and examples that use several crates at once.
//!
//! Nothing ships from here: the layers live in `crates/`, and `ARCHITECTURE.md` describes them.

#![forbid(unsafe_code)]
