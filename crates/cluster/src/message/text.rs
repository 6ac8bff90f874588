//! Short texts that nodes tell each other: addresses, host names, names.
//!
//! They go into `nodes.conf` and into replies, between commas and spaces, so that no character of
//! them may end a field. The rule is Valkey's for auxiliary fields: printable, and after the comma.

use std::fmt;

/// A text that cannot end a field. May be empty.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<str>);

impl Text {
    /// The maximum length of a text.
    pub const MAX_LEN: usize = 255;

    /// Returns the text of these characters; none if it is too long, or one of them may not be in a
    /// text.
    pub fn parse(text: &[u8]) -> Option<Text> {
        let is_valid = |byte: &u8| (b'-'..0x7f).contains(byte) && *byte != b'=';
        let text = (text.len() <= Text::MAX_LEN && text.iter().all(is_valid)).then_some(text)?;
        std::str::from_utf8(text).ok().map(|text| Text(text.into()))
    }

    /// Returns its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.0)
    }
}
