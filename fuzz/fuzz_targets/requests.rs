//! Any bytes to the request parser. See the body.

#![no_main]

#[path = "../bodies/requests.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
