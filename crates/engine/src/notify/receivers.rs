//! Kinds of subscriptions, and the subscribers at the time when a message was published.

/// Kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// A pattern of channels.
    Pattern,
    /// A shard channel.
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];
}

/// The subscribers of a channel at one moment, by the names that they subscribed to.
pub struct Receivers {
    pub(crate) channel: Box<[u8]>,
    pub(crate) by_name: Vec<(Kind, Box<[u8]>, Vec<u64>)>,
}

impl Receivers {
    /// Returns how often a message to them is delivered.
    pub fn count(&self) -> usize {
        self.by_name.iter().map(|(_, _, ids)| ids.len()).sum()
    }
}
