//! A damaged pool to the heap. See the body.

#![no_main]

#[path = "../bodies/pool.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
