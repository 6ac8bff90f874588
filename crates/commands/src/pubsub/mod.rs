//! Publish and subscribe: sends messages to all clients that are subscribed to a channel, or to a
//! pattern that it matches.
//!
//! Messages are not data: they are not durable, not logged, and not part of any database.
//!
//! **Ownership.** The engine owns the registry ([`engine::notify::hub::Hub`]), which maps channels
//! and patterns to clients. A session owns the list of its own subscriptions
//! ([`engine::notify::hub::Subscriptions`]), by which it leaves the registry when it ends. Shard
//! channels are a second kind of channels, with names of their own and without patterns.
//!
//! **The path of a message.** The publishing thread puts it, encoded, into the inbox of each
//! subscriber and wakes the task of its connection, on whatever thread that runs; the task sends
//! the inbox after the replies that are already queued. One thread publishes the messages of a
//! client, one after the other, so they arrive in order. A connection whose client does not read is
//! closed when its output exceeds the limit; the publisher never waits. A message that a
//! transaction publishes is sent after the commit, to those who were subscribed when the command
//! was executed ([`engine::notify`]).
//!
//! **Order within a connection.** A subscription is in the registry before its confirmation is
//! written, and messages follow the replies, so no message comes before the confirmation. To
//! unsubscribe, a session leaves the registry first, then takes the messages in its inbox, then
//! writes the confirmation: no message comes after that. Its own messages come before the reply of
//! the PUBLISH that sent them.

mod inspect;
mod publish;
mod subscribe;

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &publish::PUBLISH,
    &publish::SPUBLISH,
    &inspect::CONTAINER,
    &subscribe::PSUBSCRIBE,
    &subscribe::PUNSUBSCRIBE,
    &subscribe::SSUBSCRIBE,
    &subscribe::SUBSCRIBE,
    &subscribe::SUNSUBSCRIBE,
    &subscribe::UNSUBSCRIBE,
];
