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
    /// Verify a pool: every checksum, count and place, and that no space is lost
    Check(Check),
    /// Copy what is sound in a damaged pool into a new one, and name what is not
    Salvage(SalvageArguments),
    /// Read a dump of Redis or Valkey (dump.rdb), verify it, and say what is in it
    Rdb(Dump),
}

/// Read a dump of Redis or Valkey (dump.rdb), verify it, and say what is in it.
#[derive(Debug, Args)]
#[command(
    long_about = "Read a dump of Redis or Valkey (dump.rdb) as a whole: checksum, lengths, every packed value. Says for each \
database and type how many keys there are, how many of them expire, how many elements they have and of how many bytes.\n\n\
Versions 1 to 12 (up to Redis 8) and 80 (Valkey 9) are read. Values of modules are not: the first one ends the reading, by \
the module's name. Nothing is written.",
    after_help = "Exit status:\n  0  the dump is whole\n  1  the dump is damaged or cut off; the last key that was begun is named\n  \
2  it could not be read: no such file, no dump, a version or a type that is not known\n\n\
Examples:\n  perdura rdb /var/lib/redis/dump.rdb\n  perdura rdb --json dump.rdb | jq .types"
)]
pub struct Dump {
    /// The dump's file
    pub file: PathBuf,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// No progress bar (there is none anyway where standard error is not a terminal)
    #[arg(long, short)]
    pub quiet: bool,
}

/// Verify a pool: every checksum, count and place, and that no space is lost.
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
    /// Cut out damaged keys, rebuild damaged indexes, set counts right, free what nothing leads
    /// to. Asks nothing; says what it did. Nothing is changed where the pool's own tables are
    /// damaged
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

/// Copy what is sound in a damaged pool into a new one, and name what is not.
#[derive(Debug, Args)]
#[command(
    long_about = "Copy every sound key of a pool, with its value and expiry time, into a new \
pool, and name what is lost. For a pool that cannot be opened, or that `perdura check --repair` \
cannot put right.\n\nThe pool's file is not changed. Damaged headers are put together from both \
copies, damaged logs applied as far as they are sound, and where an index is lost its keys are \
searched for: every entry verifies itself. Nothing is copied that was not verified as a whole. \
Each thing that is damaged is named on a line of its own, on standard error. The new pool gets \
its name when it is complete.",
    after_help = "Exit status:\n  0  every key was copied\n  1  something is lost, or may be: it \
is named; all else was copied\n  \
2  nothing was copied: no such file, no pool, in use by a server, NEW is there already, no \
space\n\n\
Examples:\n  perdura salvage /mnt/pmem0/perdura.pool --to /mnt/pmem0/salvaged.pool\n  \
perdura salvage perdura.pool --to new.pool --json > salvaged.json"
)]
pub struct SalvageArguments {
    /// The damaged pool's file
    pub pool: PathBuf,
    /// The new pool's file, which must not be there
    #[arg(long, value_name = "NEW")]
    pub to: PathBuf,
    /// Put sound keys whose database is not known into this database [default: name them and leave
    /// them out]
    #[arg(long, value_name = "DB", value_parser = clap::value_parser!(u8).range(0..16))]
    pub unplaced: Option<u8>,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// No progress bar (there is none anyway where standard error is not a terminal)
    #[arg(long, short)]
    pub quiet: bool,
}
