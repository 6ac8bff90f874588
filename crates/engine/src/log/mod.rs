//! The command log: what goes into it, and how replies wait for it.
//!
//! - `command_log`: the log as the engine sees it.
//! - `effects`: what a transaction leaves for it.
//! - `unwritten`: reads while it cannot be written.

mod command_log;
mod effects;
mod unwritten;

pub use command_log::CommandLog;
pub use effects::{Delivery, Effects};
