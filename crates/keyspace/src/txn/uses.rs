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

    #[inline]
    pub(crate) fn touch_key(&self, place: KeyLocation, key: &Key<'_>) {
        if self.touches {
            let which = place.which(key.hash);
            self.volatile(place.shard).access.touch(which, self.now(), self.shared.lfu());
        }
    }
}
