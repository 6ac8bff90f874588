//! Replies as values, and their notation in tests.
//!
//! The notation is redis-cli's, on one line: `OK`, `"text"`, `(integer) 3`, `(nil)`, `(error) ERR
//! ...`, `[1, 2]`. RESP2's two kinds of nil are kept apart, since clients can distinguish them.

use std::fmt;

/// A reply of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+text`
    Simple(String),
    /// `-text`
    Error(String),
    /// `:n`
    Int(i64),
    /// `$n`
    Bulk(Vec<u8>),
    /// `$-1`, or `_` of RESP3
    Nil,
    /// `*-1`
    NilArray,
    /// `*n`
    Array(Vec<Reply>),
    /// `%n`
    Map(Vec<(Reply, Reply)>),
    /// `~n`
    Set(Vec<Reply>),
    /// `>n`
    Push(Vec<Reply>),
    /// `,x`, as it came
    Double(String),
    /// `#t` or `#f`
    Bool(bool),
    /// `(n`
    Big(String),
    /// `=n`: the three letters of the format, and the text
    Verbatim(String, Vec<u8>),
}

impl Reply {
    /// Returns true if this is `+OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Reply::Simple(text) if text == "OK")
    }

    /// Returns true if this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Returns the bytes of a bulk, simple or verbatim string.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => Some(bytes),
            Reply::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// Returns the text of any kind of string or error; empty for everything else.
    pub fn text(&self) -> String {
        match self {
            Reply::Error(text) => text.clone(),
            other => String::from_utf8_lossy(other.bytes().unwrap_or_default()).into_owned(),
        }
    }

    /// Returns the number of an integer, or of a string that contains one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Reply::Int(n) => Some(*n),
            other => std::str::from_utf8(other.bytes()?).ok()?.parse().ok(),
        }
    }

    /// Returns the elements of an array, set or push message; empty for everything else.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items,
            _ => &[],
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, open: &str, items: &[Reply], close: &str| {
            let items: Vec<String> = items.iter().map(Reply::to_string).collect();
            write!(f, "{open}{}{close}", items.join(", "))
        };
        match self {
            Reply::Simple(text) => f.write_str(text),
            Reply::Error(text) => write!(f, "(error) {text}"),
            Reply::Int(n) => write!(f, "(integer) {n}"),
            Reply::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::Nil => f.write_str("(nil)"),
            Reply::NilArray => f.write_str("(nil array)"),
            Reply::Array(items) => list(f, "[", items, "]"),
            Reply::Set(items) => list(f, "~[", items, "]"),
            Reply::Push(items) => list(f, ">[", items, "]"),
            Reply::Map(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k} => {v}")).collect();
                write!(f, "{{{}}}", pairs.join(", "))
            }
            Reply::Double(text) => write!(f, "(double) {text}"),
            Reply::Bool(true) => f.write_str("(true)"),
            Reply::Bool(false) => f.write_str("(false)"),
            Reply::Big(text) => write!(f, "(big number) {text}"),
            Reply::Verbatim(format, bytes) => write!(f, "{format}:\"{}\"", bytes.escape_ascii()),
        }
    }
}
