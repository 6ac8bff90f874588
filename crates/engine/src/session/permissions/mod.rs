//! The permissions of a session's user: `check` decides whether its rules allow a command;
//! `session` applies that to sessions, authenticates them, and logs denials. Users themselves are
//! in [`crate::session::users`].

mod check;
mod session;
mod settings;

pub use check::{check_rules, may_read_all_keys};
pub use session::{Permissions, set_user};
