//! A shard's redo log: the form of a record (`record`), and the ring in which records are written
//! and retired (`ring`).
//!
//! A record says which words a transaction changes, and which bytes it publishes. It is written
//! once, flushed, and never read again but by recovery ([`crate::recovery`]). What goes into it is
//! decided in [`crate::transaction`].

pub(crate) mod record;
pub(crate) mod ring;
