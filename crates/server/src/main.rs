//! perdura-server.
#![forbid(unsafe_code)]
fn main() {}
