//! What the user of a session may do: `check` says whether its rules allow a command, and
//! `session` asks that for sessions, authenticates them, and keeps what was denied. Users
//! themselves are in [`crate::session::users`].

mod check;
mod session;
mod settings;

pub use check::{check_rules, may_read_all_keys};
pub use session::{Permissions, set_user};
