//! Tests of the program `perdura` as people run it, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod backup;
mod check;
mod common;
mod dump;
mod journal;
mod ping;
mod salvage;
mod server;
mod tls;
mod transfer;
