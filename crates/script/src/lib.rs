//! Lua scripts and functions as Redis 7.0 runs them.
//!
//! [`Interpreter`] compiles scripts and function libraries and runs them; there is one per thread.
//! What a script may do outside of Lua goes through the trait [`Host`], which the caller lends for
//! the duration of one run: `redis.call`, the log, permissions, and the question whether the script
//! is to be killed. Results are [`Reply`] values.
//!
//! Scripts are not trusted. They see neither files nor bytecode, cannot change what another script
//! will see, and end with an error when they recurse, fill the memory or are killed. How this is
//! done is said in `lua/sandbox.lua`.
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
