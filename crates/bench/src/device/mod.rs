//! What a medium can do by itself: the device study of a comparison.
//!
//! The same questions that fio with its libpmem engine and the studies of NVDIMMs asked: how fast
//! blocks of some sizes are read and written, at random and in sequence, alone and mixed, by each
//! way that there is to get bytes to a medium; and what a fence, a flush and an append to a log
//! cost, of which every commit of the heap is made. A comparison of servers is read with this
//! next to it: a system cannot be faster than what it is on.
//!
//! [`study`] measures one medium (`Medium` knows what durability means there) and gives rows of the
//! results. Instructions and mappings belong to `pmem`; here is no unsafe code, so each thread has
//! a [`Partition`](pmem::Partition) of its own.

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
