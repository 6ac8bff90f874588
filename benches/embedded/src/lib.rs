//! Perdura's library compared with other embedded key-value stores: the same keys, values,
//! operations, threads and file systems for all of them.
//!
//! Each measurement runs in a process of its own ([`cell`], [`kill`]), so that no store sees what
//! another left in memory; the parent ([`plan`]) lets the stores take turns and gathers what the
//! children print, [`report`] writes it down.
//!
//! This package must not reach into Perdura below its library: what a program cannot call is not
//! compared.
#![deny(unsafe_code)]

pub mod cell;
pub mod child;
pub mod data;
pub mod document;
pub mod engines;
pub mod kill;
pub mod machine;
pub mod plan;
pub mod report;
pub mod results;
pub mod statistics;
pub mod store;
pub mod systems;
