//! Tests of the C interface: a program in C, and the header.

#![forbid(unsafe_code)]

mod header;
mod program;
