//! Deleting expired keys, and expired fields of hashes, that nobody reads: in bounded steps.

use std::sync::atomic::Ordering::Relaxed;

use heap::{Ptr, Shard};

use crate::txn::KeyLocation;
use crate::{CommitError, Db, Keyspace, Progress, Txn, entry};

impl Keyspace {
    /// Deletes some expired keys of the shard, and some expired fields of hashes; looks at about
    /// `budget` keys. The transaction is returned committed and still locked, so that `changes` can
    /// be written to a command log before it is dropped.
    ///
    /// `more` is true if more than a tenth as many keys and fields were deleted as keys were looked
    /// at: Redis's measure of lagging behind.
    pub fn expire_step(
        &self,
        shard: usize,
        budget: usize,
        now: u64,
    ) -> Result<(Txn<'_>, Progress), CommitError> {
        self.shared.grow_access(shard);
        let (mut txn, progress) = self.expire_in(self.begin_one(shard, now), budget);
        txn.commit()?;
        Ok((txn, progress))
    }

    /// Like [`Keyspace::expire_step`], but the caller commits the transaction, and `None` is
    /// returned if the shard is locked: for a caller with other work to do.
    pub fn try_stage_expiry(
        &self,
        shard: usize,
        budget: usize,
        now: u64,
    ) -> Option<(Txn<'_>, Progress)> {
        self.shared.grow_access(shard);
        Some(self.expire_in(self.try_begin_one(shard, now)?, budget))
    }

    fn expire_in<'k>(&'k self, mut txn: Txn<'k>, budget: usize) -> (Txn<'k>, Progress) {
        debug_assert!(txn.shards.len() == 1, "keys of one shard expire in a step");
        let held = self.time_lock_hold();
        let mut progress = Progress::default();
        for db in Db::all() {
            if progress.looked_at >= budget {
                break;
            }
            expire_some(&mut txn, db, budget - progress.looked_at, &mut progress);
        }
        progress.more = progress.done * 10 > progress.looked_at;
        held.done();
        (txn, progress)
    }
}

fn expire_some(txn: &mut Txn<'_>, db: Db, budget: usize, progress: &mut Progress) {
    let place = KeyLocation { shard: 0, db: txn.physical(db) };
    if txn.counts(place).expiring == 0 {
        return;
    }
    let cursor = &txn.volatile(0).expire_cursors[db.number()];
    let (mut expired, mut with_expired_fields): (Vec<Ptr>, Vec<Ptr>) = (Vec::new(), Vec::new());
    let shard: &Shard<'_> = &txn.shards[0];
    let from = cursor.load(Relaxed);
    let (mut at, mut looked_at) = (from, 0);
    let (mut ttl_sum, mut ttl_keys) = (0, 0);
    // A sparse index returns few entries in each call, so the number of calls is bounded too.
    for _ in 0..budget {
        at = txn.expiry_index(place).scan(shard, at, 1, |entry| {
            looked_at += 1;
            if let Some(ttl) = entry::expiry(shard, entry).checked_sub(txn.now()) {
                (ttl_sum, ttl_keys) = (ttl_sum + u128::from(ttl), ttl_keys + 1);
            }
            if entry::is_expired(shard, entry, txn.now()) {
                expired.push(entry);
            } else if txn.has_expired_fields(place, entry) {
                with_expired_fields.push(entry);
            }
        });
        if at == 0 || looked_at >= budget {
            break;
        }
    }
    cursor.store(at, Relaxed);
    txn.volatile(0).mean_ttls[db.number()].record(ttl_sum, ttl_keys);
    progress.looked_at += looked_at;
    for at in expired {
        progress.done += usize::from(expire_entry(txn, place, db, at));
    }
    for at in with_expired_fields {
        let fields = expire_fields_of(txn, db, at);
        progress.done += fields;
        // More fields have expired than one step deletes: the next step visits this hash again.
        if fields > 0 && txn.has_expired_fields(place, at) {
            cursor.store(from, Relaxed);
        }
    }
}

/// Deletes expired fields of a hash; returns their number.
fn expire_fields_of(txn: &mut Txn<'_>, db: Db, at: Ptr) -> usize {
    let bytes = entry::key(&txn.shards[0], at).into_owned();
    let key = txn.key(&bytes);
    let savepoint = txn.savepoint();
    txn.hashes().delete_some_expired(db, &key).unwrap_or_else(|_| {
        // No space even for that, or the hash is damaged: the fields stay, as expired as before.
        txn.rollback_to(savepoint);
        0
    })
}

fn expire_entry(txn: &mut Txn<'_>, place: KeyLocation, db: Db, at: Ptr) -> bool {
    let bytes = entry::key(&txn.shards[0], at).into_owned();
    let key = txn.key(&bytes);
    let savepoint = txn.savepoint();
    match txn.slot_mut(place, db, &key) {
        Ok(_) => true,
        Err(_) => {
            // No space even for a delete: the key stays, as expired as before.
            txn.rollback_to(savepoint);
            false
        }
    }
}
