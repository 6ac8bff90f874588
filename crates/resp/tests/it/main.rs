//! Tests of both directions of the protocol, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod redis_server;
mod replies;
mod requests;
