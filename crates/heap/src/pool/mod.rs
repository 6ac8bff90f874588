//! The life cycle of a pool: it is created (`create`), opened and recovered (`open`), closed
//! (`close`), and gives the space of free spans back (`shrink`). On an ordinary disk it has a
//! journal (`journal`), which it leaves if that is lost (`leave`). It grows when a span is needed
//! ([`crate::alloc::spans`]).

mod close;
pub(crate) mod create;
mod journal;
mod leave;
mod open;
pub(crate) mod shrink;
