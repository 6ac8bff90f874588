//! Holds tests, benchmarks and examples only.
