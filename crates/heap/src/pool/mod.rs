//! A pool from its making to its end: it is created (`create`), opened and recovered (`open`),
//! closed (`close`), and gives the space of free spans back (`shrink`). It grows when a span is
//! needed ([`crate::alloc::spans`]).

mod close;
pub(crate) mod create;
mod open;
mod shrink;
