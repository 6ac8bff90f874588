//! The connection itself: its user, its protocol and its database.

mod auth;
mod hello;
mod ping;
mod select;

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &auth::AUTH,
    &hello::HELLO,
    &ping::ECHO,
    &ping::PING,
    &ping::QUIT,
    &select::RESET,
    &select::SELECT,
];
