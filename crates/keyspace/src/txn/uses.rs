//! Uses of keys, which a transaction records in the shard's [`AccessTable`] and reads from there.
//!
//! [`AccessTable`]: crate::eviction::access::AccessTable

use super::KeyLocation;
use crate::{Db, Key, Txn};

impl Txn<'_> {
    /// Sets whether finding a key counts as a use of it from now on.
    #[inline]
    pub fn set_touches(&mut self, touches: bool) {
        self.touches = touches;
    }

    #[inline]
    pub(crate) fn touch_key(&self, place: KeyLocation, key: &Key<'_>) {
        if self.touches {
            let which = place.which(key.hash);
            self.volatile(place.shard).access.touch(which, self.now(), self.shared.lfu());
        }
    }

    /// Sets how long ago a key was last used. Does nothing under an LFU policy, which does not use
    /// it.
    pub fn set_idle(&mut self, db: Db, key: &Key<'_>, idle_ms: u64) {
        if self.shared.lfu().is_none() {
            let place = self.place(db, key);
            self.volatile(place.shard).access.set_idle(place.which(key.hash), self.now(), idle_ms);
        }
    }

    /// Sets Redis's logarithmic counter of uses of a key. Does nothing unless the policy is LFU,
    /// since no other policy uses it.
    pub fn set_frequency(&mut self, db: Db, key: &Key<'_>, frequency: u8) {
        if let Some(lfu) = self.shared.lfu() {
            let (place, now) = (self.place(db, key), self.now());
            let which = place.which(key.hash);
            self.volatile(place.shard).access.set_frequency(which, now, lfu, frequency);
        }
    }
}
