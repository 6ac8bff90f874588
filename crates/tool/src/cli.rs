//! The command line of `perdura`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Looks after pools of Perdura. A pool that a server has open is left alone.
#[derive(Debug, Parser)]
#[command(name = "perdura", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Verify a pool: every checksum, count and place, and that no room is lost
    Check(Check),
}

/// Verify a pool: every checksum, count and place, and that no room is lost.
#[derive(Debug, Args)]
#[command(
    long_about = "Verify a pool: headers, logs, span tables, indexes, every key and value, counts and expiry times, \
and that what is allocated is what is reachable.\n\nThe file is not changed, unless --repair is given. It is recovered \
and read in a private copy, page by page as needed. Each thing that is wrong is named on a line of its own, on standard \
output.",
    after_help = "Exit status:\n  0  the pool is sound\n  1  the pool is damaged (with --repair: and still is)\n  \
2  the pool could not be looked at: no such file, no pool, in use by a server\n  \
3  with --repair: the pool was damaged and is sound now; keys that were lost are named\n\n\
Examples:\n  perdura check /mnt/pmem0/perdura.pool\n  perdura check --repair --json perdura.pool > repaired.json"
)]
pub struct Check {
    /// The pool's file
    pub pool: PathBuf,
    /// Cut out damaged keys, make damaged indexes anew, set counts right, free what nothing leads to. Asks nothing; says
    /// what it did. Nothing is changed where the pool's own tables are damaged
    #[arg(long)]
    pub repair: bool,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Threads that read [default: one for each core]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// No progress bar (there is none anyway where standard error is not a terminal)
    #[arg(long, short)]
    pub quiet: bool,
}
