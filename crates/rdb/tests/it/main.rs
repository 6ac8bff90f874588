//! Tests of dumps, both from a redis-server and made up, in one program, so that they are linked
//! once.

#![forbid(unsafe_code)]

mod bad_input;
mod buffers;
mod frames;
mod redis;
