//! Why something is no dump, or none that can be read.

use std::io;

/// Why reading failed. Places are counted in bytes from where reading began.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source itself failed.
    #[error("reading failed: {0}")]
    Io(#[source] io::Error),
    /// The data ends where more must follow.
    #[error("the data is cut off at byte {at}")]
    Cut {
        /// Where it ends.
        at: u64,
    },
    /// It does not begin as a dump does.
    #[error("this is no RDB file: it begins with {found:?}")]
    Magic {
        /// What it begins with.
        found: String,
    },
    /// Its version is not known.
    #[error("version {version} of the RDB format is not known")]
    Version {
        /// What it says.
        version: u16,
    },
    /// The checksum is that of other bytes.
    #[error("the checksum is {expected:#018x}, that of the bytes {found:#018x}")]
    Checksum {
        /// What is written.
        expected: u64,
        /// What the bytes have.
        found: u64,
    },
    /// A type of value that is not known.
    #[error("type {kind} at byte {at} is not known")]
    Type {
        /// Its number.
        kind: u8,
        /// Where it is.
        at: u64,
    },
    /// What belongs to a module cannot be read without it.
    #[error("the data of the module {name:?} at byte {at} cannot be read without the module")]
    Module {
        /// The module's type.
        name: String,
        /// Where its data begins.
        at: u64,
    },
    /// A length that is none, or one that cannot be.
    #[error("the length at byte {at} is not valid")]
    Length {
        /// Where what it belongs to begins.
        at: u64,
    },
    /// A string, or a packed collection, of more bytes than the reader takes.
    #[error("a string of {len} bytes at byte {at} is longer than {longest}")]
    TooLong {
        /// Its length.
        len: u64,
        /// The longest that is taken.
        longest: u64,
        /// Where it begins.
        at: u64,
    },
    /// A collection without elements.
    #[error("a collection without elements ends at byte {at}")]
    Empty {
        /// Where it ends.
        at: u64,
    },
    /// A value that contradicts itself.
    #[error("{what} integrity check failed, before byte {at}")]
    Corrupt {
        /// What of it, as Redis calls it.
        what: &'static str,
        /// Where reading was when it showed.
        at: u64,
    },
    /// A consumer group of a stream that contradicts itself.
    #[error("{what}, before byte {at}")]
    Group {
        /// How, in Redis's words.
        what: &'static str,
        /// Where reading was when it showed.
        at: u64,
    },
}
