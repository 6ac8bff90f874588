//! The program `perdura`, which maintains pools from outside the server.
//!
//! `perdura check` verifies a whole pool without changing a byte of its file, and repairs what can
//! be repaired when told to. A pool that a server has open is left alone; the server looks for
//! damage itself.
//!
//! `perdura salvage` copies the intact data of a pool that cannot be opened into a new one.
//!
//! `perdura backup` makes a verified copy of the data of a running server, or of a pool, in one
//! file; `perdura restore` makes a pool of it.
//!
//! `perdura ping` asks a server whether it serves.
//!
//! `perdura rdb` reads a dump of Redis or Valkey and reports its content. `perdura import` sends
//! the keys of a dump, a pool, a log or a running server to a running server, or makes a pool of
//! them; `perdura export` writes them as a dump or as text.
//!
//! This crate must not know the server: it talks to one as any client does.
#![forbid(unsafe_code)]

mod arguments;
mod check;
pub mod chunks;
mod dump;
mod json;
mod new_file;
mod output;
mod ping;
mod pool;
mod progress;
mod report;
mod salvage;
mod transfer;

use std::process::ExitCode;

pub use arguments::{
    Arguments, Backup, Check, Command, Dump, Export, Form, Format, Import, Ping, Restore,
    SalvageArguments,
};

/// The result of a run, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pool is sound.
    Sound,
    /// The pool is still damaged.
    Damaged,
    /// The pool could not be verified.
    Unchecked,
    /// The pool was damaged and is sound now; losses were named.
    Repaired,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(match verdict {
            Verdict::Sound => 0,
            Verdict::Damaged => 1,
            Verdict::Unchecked => 2,
            Verdict::Repaired => 3,
        })
    }
}

/// Runs the command line's command.
pub fn run(arguments: &Arguments) -> Verdict {
    pmem::ignore_file_size_signal();
    match &arguments.command {
        Command::Check(options) => check::run(options),
        Command::Salvage(options) => salvage::run(options),
        Command::Backup(options) => transfer::backup(options),
        Command::Restore(options) => transfer::restore(options),
        Command::Rdb(options) => dump::run(options),
        Command::Import(options) => transfer::import(options),
        Command::Export(options) => transfer::export(options),
        Command::Ping(options) => ping::run(options),
    }
}
