//! Tests of the crate through its interface.

#![forbid(unsafe_code)]

mod calls;
mod errors;
mod fuzz_corpus;
mod libraries;
mod limits;
mod numbers;
mod patterns;
mod redis_server;
mod replies;
mod sandbox;
mod support;
