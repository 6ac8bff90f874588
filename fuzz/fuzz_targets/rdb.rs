//! Any bytes to the reader of dumps. See the body.

#![no_main]

#[path = "../bodies/rdb.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
