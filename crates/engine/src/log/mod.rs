//! The command log: its content, and how replies wait for it.
//!
//! - `command_log`: the log as the engine sees it.
//! - `effects`: a transaction's effects for it.
//! - `durability`: how far it must be durable before a reply may leave.

mod command_log;
mod durability;
mod effects;

pub use command_log::CommandLog;
pub use durability::LogDurability;
pub(crate) use effects::EffectsMark;
pub use effects::{Delivery, Effects};
