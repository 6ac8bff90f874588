//! Messages to clients in addition to their replies.
//!
//! - [`hub`]: the subscriptions to channels; [`receivers`] are the subscribers for one message.
//! - [`events`]: which changes of keys are published.
//! - [`tracker`]: the copies of keys that clients keep; `tracking` notifies their owners.
//! - `delivery`: a transaction's messages, after its commit.

mod delivery;
pub mod events;
pub mod hub;
pub mod receivers;
mod shard_channels;
pub mod tracker;
pub(crate) mod tracking;

pub use tracking::TrackingClients;
