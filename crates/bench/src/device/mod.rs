//! The device study of a comparison: what a medium can do by itself.
//!
//! It asks what fio with its libpmem engine and the studies of NVDIMMs asked: how fast blocks of
//! several sizes are read and written, at random and in sequence, alone and mixed, with each method
//! to access a medium; and what a fence, a flush and an append to a log cost, the steps of every
//! commit of the heap. It is the reference for a comparison of servers: a system cannot be faster
//! than its medium.
//!
//! [`study`] measures one medium and returns rows of the results; `Medium` knows what durability
//! means there. Instructions and mappings belong to `pmem`. There is no unsafe code here, so each
//! thread has a [`Partition`](pmem::Partition) of its own.

mod cell;
mod costs;
mod medium;
mod method;
mod options;
mod pattern;
mod study;
mod target;

pub(crate) use options::Options;
pub(crate) use study::study;
