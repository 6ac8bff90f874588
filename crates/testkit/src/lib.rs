//! Servers, clients and scratch directories for tests of whole processes.
//!
//! A test starts a [`Server`] (Perdura's or, as the peer to compare with, redis-server) on a free
//! port in a scratch directory, talks to it through a [`Client`], kills it and starts it again. A
//! server that goes out of scope, in a panic too, takes its process and its directory with it; so
//! it must not be kept in a `static`, which is never dropped.
//!
//! This crate is for tests only and uses none of Perdura's crates: it sees the server as any client
//! does.

#![forbid(unsafe_code)]

mod binary;
mod client;
mod data;
pub mod evidence;
mod launch;
pub mod linear;
pub mod load;
mod ports;
mod reply;
mod server;
mod two;

pub use binary::{example, perdura, perdura_server};
pub use client::Client;
pub use data::EACH_TYPE;
pub use launch::{Launch, Medium};
pub use ports::free_port;
pub use reply::Reply;
pub use server::{Ended, Server};
pub use two::two_at_a_time;
