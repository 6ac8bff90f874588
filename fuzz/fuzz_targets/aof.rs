//! Any files to the loader of the append-only file. See the body.

#![no_main]

#[path = "../bodies/aof.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
