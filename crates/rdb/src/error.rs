//! Errors of bytes that are not a dump, or a dump that cannot be read.

use std::io;

/// Why reading failed. Positions are counted in bytes from where reading began.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source itself failed.
    #[error("reading failed: {0}")]
    Io(#[source] io::Error),
    /// The data ends where more must follow.
    #[error("the data is cut off at byte {at}")]
    Cut {
        /// The position of the end.
        at: u64,
    },
    /// It does not begin like a dump.
    #[error("this is no RDB file: it begins with {found:?}")]
    Magic {
        /// The first bytes.
        found: String,
    },
    /// An unknown version.
    #[error("version {version} of the RDB format is not known")]
    Version {
        /// The version.
        version: u16,
    },
    /// The checksum does not match the bytes.
    #[error("the checksum is {expected:#018x}, that of the bytes {found:#018x}")]
    Checksum {
        /// The checksum in the dump.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// An unknown type of value.
    #[error("type {kind} at byte {at} is not known")]
    Type {
        /// Its number.
        kind: u8,
        /// Its position.
        at: u64,
    },
    /// A module's data cannot be read without the module.
    #[error("the data of the module {name:?} at byte {at} cannot be read without the module")]
    Module {
        /// The module's type.
        name: String,
        /// The position of its data.
        at: u64,
    },
    /// An invalid or impossible length.
    #[error("the length at byte {at} is not valid")]
    Length {
        /// The position of what it belongs to.
        at: u64,
    },
    /// A string, or a packed collection, of more bytes than the reader accepts.
    #[error("a string of {len} bytes at byte {at} is longer than {longest}")]
    TooLong {
        /// Its length.
        len: u64,
        /// The longest accepted length.
        longest: u64,
        /// Its position.
        at: u64,
    },
    /// A collection without elements.
    #[error("a collection without elements ends at byte {at}")]
    Empty {
        /// The position of its end.
        at: u64,
    },
    /// A value that contradicts itself.
    #[error("{what} integrity check failed, before byte {at}")]
    Corrupt {
        /// The wrong part, in Redis's words.
        what: &'static str,
        /// The position of the reader when it noticed.
        at: u64,
    },
    /// A consumer group of a stream that contradicts itself.
    #[error("{what}, before byte {at}")]
    Group {
        /// The contradiction, in Redis's words.
        what: &'static str,
        /// The position of the reader when it noticed.
        at: u64,
    },
}
