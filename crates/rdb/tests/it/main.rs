//! Tests of dumps: those of a redis-server, and those that nobody made, in one program, so that
//! they are linked once.

#![forbid(unsafe_code)]

mod bad_input;
mod buffers;
mod frames;
mod redis;
