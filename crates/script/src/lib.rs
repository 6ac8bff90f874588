//! Lua scripts and functions as Redis 7.0 runs them.
//!
//! [`Interpreter`] compiles scripts and function libraries and runs them; there is one per thread.
//! A script reaches the world outside of Lua through the trait [`Host`], which the caller lends for
//! one run: `redis.call`, the log, permissions, and the decision whether the script is killed.
//! Results are [`Reply`] values.
//!
//! Scripts are not trusted. They see neither files nor bytecode, cannot change what other scripts
//! see, and end with an error if they recurse too deeply, fill the memory or are killed.
//! `lua/sandbox.lua` says how.
//!
//! Unsafe code is in one module, `stack`, which reaches Lua's stack without mlua.
//!
//! The crate knows no keys, no transactions, no sockets, no threads and no clock.

#![deny(unsafe_code)]

mod arguments;
mod bytecode;
mod cache;
mod calls;
mod convert;
mod errors;
mod host;
mod interpreter;
mod invocation;
mod libraries;
mod library;
mod natives;
mod number;
mod patterns;
mod random;
mod redis;
mod reply;
mod shebang;
mod stack;
mod state;
mod strings;
mod wire;
mod words;

pub use host::{Continue, Host, LogLevel};
pub use interpreter::{Interpreter, Invocation, Outcome, Script};
pub use library::{Function, Library};
pub use reply::Reply;
pub use shebang::{Flags, ScriptError};
