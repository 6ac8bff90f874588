//! The command line of `perdura`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Looks after pools of Perdura, and moves keys in and out. A pool that a server has open is left
/// alone.
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
    /// Make a verified copy of a running server's data, or of a pool, in one file
    Backup(Backup),
    /// Make a pool of a backup, and verify it
    Restore(Restore),
    /// Read a dump of Redis or Valkey (dump.rdb), verify it, and say what is in it
    Rdb(Dump),
    /// Bring the keys of a dump, a log, a pool or a running server into a server or a new pool
    Import(Import),
    /// Write the keys of a dump, a log, a pool or a running server as a dump, commands or JSON
    Export(Export),
    /// Ask a server whether it serves
    Ping(Ping),
}

/// Ask a server whether it serves.
#[derive(Debug, Args)]
#[command(
    long_about = "Send PING to a server and print what it answers. For supervisors, and as the health check of a container. \
A server that wants a password first serves, and so does one that refuses writes and answers reads (-MISCONF). TLS is not spoken: \
name a port without it.",
    after_help = "Exit status:\n  0  the server serves\n  1  it answers, but does not serve: it loads data, or refuses clients\n  \
2  it does not answer\n\nExamples:\n  perdura ping\n  perdura ping 127.0.0.1:6380 --timeout 1"
)]
pub struct Ping {
    /// The server
    #[arg(default_value = "127.0.0.1:6379", value_name = "HOST:PORT")]
    pub server: String,
    /// Seconds to wait for the answer
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub timeout: u64,
}

/// Make a verified copy of a running server's data, or of a pool, in one file.
#[derive(Debug, Args)]
#[command(
    long_about = "Make a copy of all data in one file: keys of every type with their expiry times, \
in all databases, and function libraries.\n\nA running server is asked for a dump of one moment \
(SYNC) and serves its clients meanwhile; what they write then is not in it. Redis and Valkey send \
one too, if the user may use SYNC. A copy of the file of a running server's pool is no backup: it \
has pages of different moments.\n\nA pool that no server has open is read as it is, whether it \
was closed or its server was killed, and so is an append-only file. Neither is changed.\n\nThe \
file is made under another name, synced, and read once more as a whole before it gets its name. \
Whatever fails, nothing incomplete has that name.",
    after_help = "Exit status:\n  0  the backup is complete and verified\n  2  there is no backup; \
the reason is named\n\nExamples:\n  perdura backup --from localhost:6379 --to monday.rdb\n  \
perdura backup --from redis://:password@localhost:6379 --to /mnt/backup/monday.rdb\n  perdura backup \
--from rediss://db.example:6380 --cacert ca.crt --to monday.rdb\n  perdura backup --from \
/mnt/pmem0/perdura.pool --to copy.pool --as pool\n  perdura restore monday.rdb --to \
/mnt/pmem0/perdura.pool"
)]
pub struct Backup {
    /// A running server (host:port, redis://user:password@host:port or rediss://... by TLS), a
    /// pool, an append-only file or its directory
    #[arg(long, value_name = "SOURCE")]
    pub from: String,
    /// The file to make, which must not be there
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// What it is: a dump that Redis reads too, or a pool that a server can open at once
    #[arg(long = "as", value_enum, default_value_t = Form::Rdb)]
    pub form: Form,
    /// The pool's journal, if it is not POOL.journal
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// How connections to servers are encrypted
    #[command(flatten)]
    pub tls: TlsOptions,
}

/// What a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A dump (dump.rdb)
    Rdb,
    /// A pool
    Pool,
}

/// Make a pool of a backup, and verify it.
#[derive(Debug, Args)]
#[command(
    long_about = "Make a pool of a backup: of a dump (dump.rdb, also Redis's or Valkey's), of a \
pool, or of an append-only file. Keys that have expired are left out.\n\nThe pool is made under \
another name, closed, synced and checked as a whole before it gets its name: as with `perdura \
check`, and the number of its keys is that of the backup. A server opens it with any --domain. A \
server that runs is no pool: with its address, the keys go there as with `perdura import`.",
    after_help = "Exit status:\n  0  the pool is complete and verified\n  1  the server kept keys \
that it had already\n  2  nothing was made: the reason is named\n\nExamples:\n  perdura restore \
monday.rdb --to /mnt/pmem0/perdura.pool\n  perdura restore monday.rdb --to localhost:6379"
)]
pub struct Restore {
    /// The backup
    pub from: String,
    /// The pool's file, which must not be there, or the address of a running server
    #[arg(long, value_name = "POOL")]
    pub to: String,
    /// The pool's journal, if it is not POOL.journal
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// How connections to servers are encrypted
    #[command(flatten)]
    pub tls: TlsOptions,
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
and read in a private copy, page by page as needed. A pool that was not closed on an ordinary disk is read together with its \
journal, which is not changed either; a repair brings the pool's file up to date with it. Each thing that is wrong is named on a line of its own, on standard \
output.",
    after_help = "Exit status:\n  0  the pool is sound\n  1  the pool is damaged (with --repair: and still is)\n  \
2  the pool could not be looked at: no such file, no pool, in use by a server\n  \
3  with --repair: the pool was damaged and is sound now; keys that were lost are named\n\n\
Examples:\n  perdura check /mnt/pmem0/perdura.pool\n  perdura check --repair --json perdura.pool > repaired.json"
)]
pub struct Check {
    /// The pool's file
    pub pool: PathBuf,
    /// Cut out damaged keys, rebuild damaged indexes, correct counts, free unreachable space. Asks
    /// nothing; reports what it did. Changes nothing if the pool's own tables are damaged
    #[arg(long)]
    pub repair: bool,
    /// The pool's journal, if it is not POOL.journal
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
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
Each thing that is damaged is named on a line of its own in a file, NEW.damage; the first of them, \
and how many there are of each kind, are shown on standard error. The new pool gets its name when it \
is complete.",
    after_help = "Exit status:\n  0  every key was copied\n  1  something is lost, or may be: it \
is named; all else was copied\n  \
2  nothing was copied: no such file, no pool, in use by a server, its journal missing or of \
another pool, NEW is there already, no space\n\n\
Examples:\n  perdura salvage /mnt/pmem0/perdura.pool --to /mnt/pmem0/salvaged.pool\n  \
perdura salvage perdura.pool --to new.pool --json > salvaged.json"
)]
pub struct SalvageArguments {
    /// The damaged pool's file
    pub pool: PathBuf,
    /// The new pool's file, which must not be there
    #[arg(long, value_name = "NEW")]
    pub to: PathBuf,
    /// The file for the list of all that is damaged, which must not be there [default: NEW.damage;
    /// none is made if nothing is damaged, or with --json]
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub list: Option<PathBuf>,
    /// Put sound keys whose database is unknown into this database [default: name them and leave
    /// them out]
    #[arg(long, value_name = "DB", value_parser = clap::value_parser!(u8).range(0..16))]
    pub unplaced: Option<u8>,
    /// The pool's journal, if it is not POOL.journal. A damaged one is read up to the damage
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Copy only the data of the pool's file, without the newest writes, which are in its journal
    #[arg(long, conflicts_with = "journal")]
    pub without_journal: bool,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// No progress bar (there is none anyway where standard error is not a terminal)
    #[arg(long, short)]
    pub quiet: bool,
}

/// Bring the keys of a dump, a log, a pool or a running server into a server or a new pool.
#[derive(Debug, Args)]
#[command(
    long_about = "Bring every key of a dump (dump.rdb), of an append-only file, of a pool, or of a \
running Redis, Valkey or Perdura, with its expiry time and in the same database, and every function \
library, into a running server, or into a new pool.\n\nThe server that takes them may be any that \
knows RESTORE. A key that it has already is left alone, unless --replace is given. A value of a newer \
version than the server knows is refused by it: it is named, the others go on, and what helps is said \
at the end. Perdura takes those of Redis up to 8, and of Valkey up to 9.\n\nA running server goes on meanwhile: a key that is written while it is copied has some \
value of that time, and one that is created may be missing. Stop its writers first if that matters, \
or import a backup of it. Values pass through memory one batch at a time; a log is replayed in \
memory first, unless it goes into a new pool. Logs and pools are not changed.",
    after_help = "Exit status:\n  0  every key was imported\n  1  some were left alone, since the \
server had them already\n  2  it failed on the way, or the server refused some keys, which are named; \
what a server has taken stays, and it can be run again with --replace\n\nExamples:\n  perdura import \
/var/lib/redis/dump.rdb --to localhost:6379\n  perdura import /var/lib/redis --to \
/var/lib/perdura/perdura.pool\n  \
perdura import redis://old-host:6379 --to redis://:password@localhost:6379\n  \
perdura import redis://old-host:6379/3 --to redis://localhost:6379/0 --replace"
)]
pub struct Import {
    /// A dump, an append-only file, the directory of a server that has either (the append-only file
    /// is read where it has both, as Redis does), a pool, or a server:
    /// redis://user:password@host:port/database, all but host optional; rediss:// by TLS
    pub from: String,
    /// The server that takes the keys (with a database in its address, all keys go there), or the
    /// file of a pool to make, which must not be there; its directory is made if need be
    #[arg(long, value_name = "TARGET")]
    pub to: String,
    /// Overwrite keys and function libraries that the server has already
    #[arg(long)]
    pub replace: bool,
    /// The pool's journal, if it is not POOL.journal
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Write the result as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// How connections to servers are encrypted
    #[command(flatten)]
    pub tls: TlsOptions,
}

/// Write the keys of a dump, a log, a pool or a running server as a dump, commands or JSON.
#[derive(Debug, Args)]
#[command(
    long_about = "Write every key of a dump (dump.rdb), of an append-only file, of a pool, or of a \
running Redis, Valkey or Perdura: for other programs, for people, for another server.\n\nrdb: a \
dump that Redis 7.0 loads, of one moment, as `perdura backup` makes it.\nresp: the commands that \
make the same keys, as redis-cli --pipe sends them.\njson: an object on a line for each key: db, \
key, type, expires (unix ms, or null), value. A list or a set is an array; a sorted set has \
[member, score] pairs, a hash [field, value] pairs, with the field's own expiry time as a third item \
where it has one; a stream has entries and groups. Text that is not UTF-8 is {\"base64\": \
\"...\"}.",
    after_help = "Exit status:\n  0  every key was written\n  2  it failed; with --out there is \
no file then\n\nExamples:\n  perdura export localhost:6379 > keys.json\n  perdura export \
localhost:6379 --format rdb --out dump.rdb\n  perdura export localhost:6379 --format rdb --for \
valkey-9 --out dump.rdb\n  perdura export dump.rdb --format resp | redis-cli \
--pipe\n  perdura export dump.rdb | jq -r 'select(.type == \"hash\") | .key'"
)]
pub struct Export {
    /// A dump, an append-only file or its directory, a pool, or a server:
    /// redis://user:password@host:port/database, all but host optional; rediss:// by TLS
    pub from: String,
    /// The form
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub format: Format,
    /// Which server is to load the dump. They differ in hashes whose fields expire: that of
    /// redis-7 is loaded by Redis 7.0 where there are none, and by Redis 7.4 and 8; Valkey 9 needs
    /// its own. From a running server that one is read key by key: export a backup of it for the
    /// state of one moment
    #[arg(long = "for", value_enum, default_value_t = Reader::Redis7, value_name = "SERVER")]
    pub reader: Reader,
    /// A file to write to, which must not be there [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The pool's journal, if it is not POOL.journal
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// How connections to servers are encrypted
    #[command(flatten)]
    pub tls: TlsOptions,
}

/// The server that is to load a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reader {
    /// Redis 7.0 and later
    #[value(name = "redis-7")]
    Redis7,
    /// Valkey 9
    #[value(name = "valkey-9")]
    Valkey9,
}

/// How keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A dump, as Redis 7.0 writes it
    Rdb,
    /// An object on a line for each key
    Json,
    /// The commands that make the keys, as clients send them
    Resp,
}

/// How connections to running servers are encrypted.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Encrypt connections to all servers, not only to those at rediss:// addresses
    #[arg(long)]
    pub tls: bool,
    /// The authorities that have signed the servers' certificates, in PEM format; then names are
    /// not compared, as in redis-cli [default: those of the system, and names are compared]
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// A certificate to show to servers, in PEM format
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}
