//! Tests of the append-only file over a medium in memory and over a disk, in one program, so that
//! they are linked once.

#![forbid(unsafe_code)]

mod disk;
mod durability;
mod formats;
mod medium;
mod retry;
