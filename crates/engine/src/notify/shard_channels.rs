//! Shard channels that another shard of the cluster has by now.

use keyspace::slot;

use crate::engine::Engine;

impl Engine {
    /// Ends the subscriptions to shard channels whose slots are not this shard's any more. To be
    /// called after the view of the cluster has changed.
    pub fn drop_shard_channels(&self) {
        if let Some(view) = self.cluster().view() {
            self.hub().drop_shard_channels(|channel| view.is_of_my_shard(slot(channel)));
        }
    }
}
