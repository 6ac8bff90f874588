//! What clients are told of in addition to their replies.
//!
//! - [`hub`]: who listens to which channels; [`receivers`] are those of one message.
//! - [`events`]: which changes of keys are published.
//! - [`tracker`]: which clients have copies of which keys, and `tracking`, which notifies them.
//! - `delivery`: what a transaction sends, after its commit.

mod delivery;
pub mod events;
pub mod hub;
pub mod receivers;
pub mod tracker;
pub(crate) mod tracking;

pub use tracking::TrackingClients;
