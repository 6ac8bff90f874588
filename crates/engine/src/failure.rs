//! Redis's error texts, and the error that a command ends with.
//!
//! The texts are those of Redis 7.0.15, byte for byte, the code word first and without the leading
//! `-`. They live here and next to the commands that alone use them; layers below report causes
//! only.

use std::borrow::Cow;

use crate::scripts::long::LongSince;

/// How a command ends: its reply is in the output, or it failed with this error.
pub type Done = Result<(), Failure>;

/// Why a command failed: the text of its error reply.
#[derive(Debug)]
pub struct Failure {
    text: Cow<'static, [u8]>,
    kind: Kind,
}

/// What may be done about a failure apart from reporting it.
#[derive(Debug)]
enum Kind {
    Final,
    /// The heap was full.
    OutOfMemory,
    /// Zeros may have been read instead of bytes that the medium lost.
    Unresolved,
    /// The command needs these shards, and one of them is locked.
    Locked(Box<[usize]>),
    /// It takes too long for a thread that serves others; for a script, since when it runs.
    TakesLong(Option<LongSince>),
}

/// Options that do not fit together or are unknown.
pub const SYNTAX: &str = "ERR syntax error";
/// An argument that must be a 64-bit integer.
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
/// An argument that must be a number.
pub const NOT_FLOAT: &str = "ERR value is not a valid float";
/// A value of another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// A string that must be a HyperLogLog.
const NOT_HYPERLOGLOG: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
/// A string that begins like a HyperLogLog but continues as something else.
const UNSOUND_HYPERLOGLOG: &str = "INVALIDOBJ Corrupted HLL object detected";
/// A key that must exist.
pub const NO_SUCH_KEY: &str = "ERR no such key";
/// Over the memory limit.
pub const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// The heap has no free block.
pub(crate) const FULL: &str = "OOM the store is full: its heap is at its limit or its file cannot grow (INFO persistence: pool_used, pool_size, pool_limit)";
/// The heap has no free block of the size, but much free space.
pub(crate) const FRAGMENTED: &str = "OOM the store is full of blocks of other sizes: its free space is fragmented, and is being made whole: try again (INFO persistence: pool_used, pool_size, pool_limit)";
/// A string that would become too long.
pub const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// A key that is too long for the store.
pub(crate) const KEY_TOO_LONG: &str = "ERR key is longer than the store allows";
/// Not authenticated.
pub(crate) const NO_AUTH: &str = "NOAUTH Authentication required.";
/// A wrong password.
pub(crate) const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// A database number above the last.
pub const DB_OUT_OF_RANGE: &str = "ERR DB index is out of range";
/// Source and target are the same.
pub const SAME_OBJECT: &str = "ERR source and destination objects are the same";
/// The command log, or the journal, of this name could not be written; the operating system's words
/// are `why`.
pub fn log_failed(name: &str, why: &str) -> Failure {
    Failure::text(format!("MISCONF Errors writing to the {name}: {why}"))
}
/// The last save failed, and writes are refused in that case.
pub(crate) const SAVE_FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";
/// This server is a replica.
pub(crate) const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
/// This server follows another primary meanwhile, or none. No client sees this.
pub(crate) const NOT_FOLLOWED: &str = "ERR the primary is not followed any more";
/// The link to the primary is down, and old data is not to be served.
pub const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
/// Fewer replicas than a write must reach.
pub(crate) const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
/// The heap could not make a transaction durable.
pub(crate) const HEAP_FAILED: &str =
    "MISCONF Errors writing to the persistent heap: it takes no writes until it is reopened";
/// The heap takes no writes for now.
const HEAP_PAUSED: &str =
    "MISCONF no write is taken for now (INFO persistence has the reason: writes_refused)";
/// The medium loses bytes faster than the losses can be resolved.
const UNRESOLVED: &str = "MEDIAERR the medium loses bytes: try again";
/// The command is to be executed later. No client sees this.
const NOT_NOW: &str = "ERR the server is busy: try again";
/// Data is being loaded.
pub const LOADING_DATA: &str = "LOADING Redis is loading the dataset in memory";

impl Failure {
    /// Returns an error made up at run time.
    pub fn text(text: impl Into<Vec<u8>>) -> Failure {
        Failure { text: Cow::Owned(text.into()), kind: Kind::Final }
    }

    /// Returns the text of the reply, code word first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns true if it sends the client to another node of the cluster, or away from all.
    pub(crate) fn is_redirection(&self) -> bool {
        let code = self.code();
        [&b"MOVED"[..], b"ASK", b"TRYAGAIN", b"CROSSSLOT", b"CLUSTERDOWN"].contains(&code)
    }

    /// Returns true if the heap was full, so that another try is worthwhile once something was
    /// freed.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self.kind, Kind::OutOfMemory)
    }

    fn out_of_memory() -> Failure {
        Failure { kind: Kind::OutOfMemory, ..FULL.into() }
    }

    /// Returns the failure of a command that did nothing because one of these shards is locked: its
    /// server tries again when the shard is unlocked.
    #[cold]
    pub(crate) fn locked(shards: impl Into<Box<[usize]>>) -> Failure {
        Failure { kind: Kind::Locked(shards.into()), ..NOT_NOW.into() }
    }

    /// Returns the shards that are needed, if one of them is locked.
    #[inline]
    pub fn wanted_shards(&self) -> Option<&[usize]> {
        match &self.kind {
            Kind::Locked(shards) => Some(shards),
            _ => None,
        }
    }

    /// Returns the failure of a command that takes too long for a thread that serves others, with
    /// nothing done; for a script that was ended for this, since when it ran.
    #[cold]
    pub fn takes_long(since: Option<LongSince>) -> Failure {
        Failure { kind: Kind::TakesLong(since), ..NOT_NOW.into() }
    }

    /// Returns the argument of [`Failure::takes_long`], if this is such a failure.
    #[inline]
    pub(crate) fn long_since(&self) -> Option<Option<LongSince>> {
        match self.kind {
            Kind::TakesLong(since) => Some(since),
            _ => None,
        }
    }

    /// Returns true if nothing was done, and the whole command is to be executed again.
    pub fn comes_again(&self) -> bool {
        matches!(self.kind, Kind::Locked(_) | Kind::TakesLong(_))
    }

    /// Returns true if zeros may have been read instead of bytes that the medium lost: the command
    /// is to be tried again once the losses are resolved.
    pub fn has_unresolved_losses(&self) -> bool {
        matches!(self.kind, Kind::Unresolved)
    }

    /// Returns the same failure, for a caller that does not try again.
    pub fn at_last(self) -> Failure {
        let kind = if self.comes_again() { self.kind } else { Kind::Final };
        Failure { text: self.text, kind }
    }

    /// Returns the failure of a command during which the medium lost bytes.
    #[cold]
    fn unresolved() -> Failure {
        Failure { kind: Kind::Unresolved, ..UNRESOLVED.into() }
    }

    /// Returns the failure of a command that needs a damaged value; `at` is the entry's offset in
    /// the pool.
    #[cold]
    pub fn damaged(at: u64) -> Failure {
        Failure::text(format!(
            "MEDIAERR the value of this key is damaged (pool offset {at:#x}): DEL it, or SET it again"
        ))
    }

    /// Returns the code, by which INFO counts errors.
    pub fn code(&self) -> &[u8] {
        code(&self.text)
    }
}

/// The longest code: with a dash before it and a space after it, 32 bytes. A longer first word is
/// not a code.
const LONGEST_CODE: usize = 30;

/// Returns the first word of an error's text, which is empty if the text begins with a space, as in
/// Redis; `ERR` if the text has no word that could be a code.
pub fn code(text: &[u8]) -> &[u8] {
    match text.iter().position(|byte| *byte == b' ') {
        Some(len @ ..=LONGEST_CODE) => &text[..len],
        _ => b"ERR",
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Failure {
        Failure { text: Cow::Borrowed(text.as_bytes()), kind: Kind::Final }
    }
}

impl From<keyspace::Error> for Failure {
    fn from(error: keyspace::Error) -> Failure {
        match error {
            keyspace::Error::Full => Failure::out_of_memory(),
            keyspace::Error::WrongType => WRONG_TYPE.into(),
            keyspace::Error::NotHyperLogLog => NOT_HYPERLOGLOG.into(),
            keyspace::Error::UnsoundHyperLogLog => UNSOUND_HYPERLOGLOG.into(),
            keyspace::Error::TooLong => TOO_LONG.into(),
            keyspace::Error::KeyTooLong => KEY_TOO_LONG.into(),
            keyspace::Error::Damaged(at) => Failure::damaged(at),
            other => Failure::text(format!("ERR {other}")),
        }
    }
}

impl From<keyspace::CommitError> for Failure {
    fn from(error: keyspace::CommitError) -> Failure {
        match error {
            keyspace::CommitError::Full => Failure::out_of_memory(),
            keyspace::CommitError::UnresolvedLosses => Failure::unresolved(),
            keyspace::CommitError::Paused => HEAP_PAUSED.into(),
            _ => HEAP_FAILED.into(),
        }
    }
}
