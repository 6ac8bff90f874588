//! Tests of the link, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod commands;
mod crashes;
mod dump;
mod handshake;
mod pieces;
