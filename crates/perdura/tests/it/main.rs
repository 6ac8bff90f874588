//! Tests of the library, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod derived;
mod iterate;
mod journal;
mod media;
mod reentry;
mod store;
mod table;
