//! Any bytes to RESTORE. See the body.

#![no_main]

#[path = "../bodies/restore.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
