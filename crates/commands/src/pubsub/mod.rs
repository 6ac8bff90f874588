//! Publish and subscribe: messages to whoever listens to a channel, or to all channels that fit a
//! pattern.
//!
//! Nothing of it is data: it is not durable, not logged, not part of any database.
//!
//! **Who owns what.** The engine owns the registry ([`engine::notify::hub::Hub`]): from channels
//! and patterns to clients. A session owns the list of its own subscriptions
//! ([`engine::notify::hub::Subscriptions`]), with which it leaves the registry when it ends. Shard
//! channels are a second kind of channels, with names of their own and without patterns.
//!
//! **The way of a message.** The publishing thread puts it, encoded, into the inbox of each
//! subscriber and wakes the task of its connection, on whatever thread that runs; the task puts the
//! inbox after the replies that it has to send. One thread publishes the messages of a client, one
//! after the other, so they arrive in their order. A client that does not read is closed by its
//! connection when it exceeds its limit; the publisher never waits for anybody. A message that a
//! transaction publishes goes to those who listened at that command, after the commit
//! ([`engine::notify`]).
//!
//! **Order within a connection.** A subscription is in the registry before its confirmation is
//! written, and messages are put after replies, so no message comes before the confirmation. To
//! end one, a session leaves the registry first, then takes what its inbox holds, then writes the
//! confirmation: no message comes after that. Its own messages come before the reply of the
//! PUBLISH that sent them.

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
