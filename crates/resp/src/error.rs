//! Errors of requests. Each ends the connection after the reply, as in Redis, since the start of
//! the next command is unknown.

use std::borrow::Cow;

/// A request that violates the protocol or its limits.
///
/// [`ProtocolError::message`] returns the text of the reply, byte for byte that of Redis 7.0.15;
/// `Display` is for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// An inline command without an end of line in the first 64 KiB.
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    /// An inline command whose quotes are not closed, or closed in the middle of a word.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// `*` without an end of line in the first 64 KiB.
    #[error("Protocol error: too big mbulk count string")]
    CountTooLong,
    /// `*` followed by something that is not a number, or by one that is too large.
    #[error("Protocol error: invalid multibulk length")]
    InvalidCount,
    /// More than ten arguments before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedCount,
    /// `$` without an end of line in the first 64 KiB.
    #[error("Protocol error: too big bulk count string")]
    LengthTooLong,
    /// An argument that does not start with `$` but with this byte.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0).escape_default())]
    ExpectedBulk(u8),
    /// `$` followed by something that is not a length, or by one above `proto-max-bulk-len`.
    #[error("Protocol error: invalid bulk length")]
    InvalidLength,
    /// An argument above 16 KiB before authentication.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedLength,
}

impl ProtocolError {
    /// Returns the text of the reply after `-ERR `: bytes, since it may quote a byte of the
    /// request.
    pub fn message(&self) -> Cow<'static, [u8]> {
        match self {
            Self::InlineTooLong => Cow::Borrowed(b"Protocol error: too big inline request"),
            Self::UnbalancedQuotes => {
                Cow::Borrowed(b"Protocol error: unbalanced quotes in request")
            }
            Self::CountTooLong => Cow::Borrowed(b"Protocol error: too big mbulk count string"),
            Self::InvalidCount => Cow::Borrowed(b"Protocol error: invalid multibulk length"),
            Self::UnauthenticatedCount => {
                Cow::Borrowed(b"Protocol error: unauthenticated multibulk length")
            }
            Self::LengthTooLong => Cow::Borrowed(b"Protocol error: too big bulk count string"),
            Self::ExpectedBulk(got) => {
                let mut text = b"Protocol error: expected '$', got '".to_vec();
                text.extend([*got, b'\'']);
                Cow::Owned(text)
            }
            Self::InvalidLength => Cow::Borrowed(b"Protocol error: invalid bulk length"),
            Self::UnauthenticatedLength => {
                Cow::Borrowed(b"Protocol error: unauthenticated bulk length")
            }
        }
    }
}
