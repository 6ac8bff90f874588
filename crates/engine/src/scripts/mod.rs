//! Scripts and function libraries, as far as all threads share them. They are compiled and run by
//! the commands that call them.
//!
//! - [`cache`]: the texts of scripts.
//! - [`libraries`]: the libraries and their functions.
//! - [`running`]: scripts that run long, and how they are ended; [`long`]: since when they run.
//! - [`interpreter_memory`]: the memory of the interpreters of all threads.

pub mod cache;
pub mod interpreter_memory;
pub mod libraries;
pub mod long;
pub mod running;
