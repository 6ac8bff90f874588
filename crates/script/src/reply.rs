//! Replies of commands and results of scripts.

use crate::wire;

/// A reply, with the types of RESP3. For a client of RESP2 its writer reduces them.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No value: a null bulk string, a null array or RESP3's null.
    Nil,
    /// A simple string.
    Status(Vec<u8>),
    /// An error.
    Error {
        /// The text, which begins with the error's code.
        message: Vec<u8>,
        /// Whether the error came from a command, which has counted it in the statistics already.
        is_counted: bool,
    },
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
    /// A map; two elements per entry in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// A set; an array in RESP2.
    Set(Vec<Reply>),
    /// A floating-point number; a bulk string in RESP2.
    Double(f64),
    /// A boolean; 1 or 0 in RESP2.
    Bool(bool),
    /// A number of any size; a bulk string in RESP2.
    BigNumber(Vec<u8>),
    /// A text with its format (`txt`, `mkd`); a bulk string in RESP2.
    Verbatim {
        /// Three letters.
        format: Vec<u8>,
        /// The text.
        text: Vec<u8>,
    },
}

impl Reply {
    /// Appends it as RESP3.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        wire::append(self, out);
    }

    /// Returns an error that was not counted yet.
    pub fn error(message: impl Into<Vec<u8>>) -> Reply {
        Reply::Error { message: message.into(), is_counted: false }
    }

    /// Returns a simple string.
    pub fn status(text: impl Into<Vec<u8>>) -> Reply {
        Reply::Status(text.into())
    }

    /// Returns a bulk string.
    pub fn bulk(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply::Bulk(bytes.into())
    }
}
