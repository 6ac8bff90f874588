//! The timeouts of all commands that wait. How a command blocks is described in [`engine::wait`].

mod timeout;

pub(crate) use engine::session::client::{BlockedOperation, Serving};
pub(crate) use engine::wait::serve_or_block;
pub(crate) use timeout::{milliseconds, seconds};
