//! Uses of keys, which a transaction records in the shard's [`AccessTable`].
//!
//! [`AccessTable`]: crate::eviction::access::AccessTable

use super::KeyLocation;
use crate::{Key, Txn};

impl Txn<'_> {
    /// Sets whether finding a key counts as a use of it from now on.
    #[inline]
    pub fn set_touches(&mut self, touches: bool) {
        self.touches = touches;
    }

    /// Returns true if it matters how often a key is used, and not only when.
    #[inline]
    pub fn counts_uses(&self) -> bool {
        self.shared.lfu().is_some()
    }

    /// Sets the time of the uses of keys, in unix ms, for a transaction whose [time](Txn::now) is 0
    /// so that nothing expires.
    #[inline]
    pub fn set_used_at(&mut self, time_of_day: u64) {
        self.used_at = time_of_day;
    }

    /// Returns the time of the uses of keys.
    #[inline]
    pub(crate) fn used_at(&self) -> u64 {
        self.now.max(self.used_at)
    }

    #[inline]
    pub(crate) fn touch_key(&self, place: KeyLocation, key: &Key<'_>) {
        if self.touches {
            let which = place.which(key.hash);
            self.volatile(place.shard).access.touch(which, self.used_at(), self.shared.lfu());
        }
    }
}
