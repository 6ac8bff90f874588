//! Any bytes as scripts and libraries of functions. See the body.

#![no_main]

#[path = "../bodies/script.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
