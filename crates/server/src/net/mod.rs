//! What clients reach: sockets, TLS, and connections with what comes in and goes out.
//!
//! - `listen`, `ports`, `unix_socket`: the sockets on which clients are accepted.
//! - `socket`, `tls`: a client's socket, of whatever kind.
//! - `connection`: reads, executes and writes, by `input` and `output`; `spool` holds large values,
//!   `discard` frees large buffers.
//! - `client_memory`, `idle_clients`: the limit of what all clients take, and of their idleness.
//! - `meter`, `rates`: counters of what was read, written and executed.

pub(crate) mod client_memory;
pub(crate) mod connection;
pub(crate) mod discard;
pub(crate) mod idle_clients;
pub(crate) mod input;
pub(crate) mod listen;
pub(crate) mod meter;
pub(crate) mod output;
pub(crate) mod ports;
pub(crate) mod rates;
pub(crate) mod socket;
pub(crate) mod spool;
pub(crate) mod tls;
pub(crate) mod unix_socket;
