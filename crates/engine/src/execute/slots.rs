//! The slots of a request's keys in a cluster.

use ::cluster::SlotSet;
use ::cluster::topology::route::Slots;
use keyspace::{Db, Key, slot};

use crate::engine::Engine;
use crate::table::spec::{CommandSpec, KEY_NOT_KEY};

/// Returns the slots of a request.
pub(crate) fn slots_of(spec: &CommandSpec, args: &[&[u8]], keys: &[Key<'_>]) -> Slots {
    match (spec.own_keys, keys) {
        (Some(own_keys), _) => own_keys(args).map(|at| slot(args[at])).collect(),
        (None, [key]) => Slots::One(slot(key.bytes())),
        (None, keys) => keys.iter().map(|key| slot(key.bytes())).collect(),
    }
}

impl Engine {
    /// Returns the keys of slots that are in one shard of the keyspace.
    pub fn keys_of_slots(&self, shard: usize, slots: &SlotSet) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let txn = self.keyspace().begin_one(shard, self.clock().unix_ms());
        txn.database(Db::default()).for_each(&mut |key, _| {
            if slots.has(slot(key)) {
                keys.push(key.to_vec());
            }
        });
        keys
    }
}

/// Returns true if a command's keys are shard channels.
pub(crate) fn takes_channels(spec: &CommandSpec) -> bool {
    spec.keys.first().is_some_and(|keys| keys.flags & KEY_NOT_KEY != 0)
}
