//! The log of commands: its content, and how replies wait for it or for a journal.
//!
//! - `command_log`: the logs as the engine sees them.
//! - `effects`: a transaction's effects for it.
//! - `durability`: how far a log must be settled before a reply may leave.

mod command_log;
mod durability;
mod effects;

pub use command_log::{CommandLog, ReplyLog};
pub use durability::LogDurability;
pub(crate) use effects::EffectsMark;
pub use effects::{Delivery, Effects};
