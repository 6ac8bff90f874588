//! A shard's redo log: the format of a record (`record`), and the ring in which records are written
//! and retired (`ring`).
//!
//! A record lists the words that a transaction changes and the bytes that it publishes. It is
//! written once, flushed, and read again only by recovery ([`crate::recovery`]).
//! [`crate::transaction`] decides what goes into it.

pub(crate) mod record;
pub(crate) mod ring;
