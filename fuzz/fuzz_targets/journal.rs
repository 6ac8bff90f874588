//! A damaged journal to the heap. See the body.

#![no_main]

#[path = "../bodies/journal.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
