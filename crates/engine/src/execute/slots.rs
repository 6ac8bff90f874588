//! The slots of a request's keys in a cluster.

use ::cluster::topology::route::Slots;
use keyspace::{Key, slot};

use crate::table::spec::{CommandSpec, KEY_NOT_KEY};

/// Returns the slots of a request.
pub(crate) fn slots_of(spec: &CommandSpec, args: &[&[u8]], keys: &[Key<'_>]) -> Slots {
    match (spec.own_keys, keys) {
        (Some(own_keys), _) => own_keys(args).map(|at| slot(args[at])).collect(),
        (None, [key]) => Slots::One(slot(key.bytes())),
        (None, keys) => keys.iter().map(|key| slot(key.bytes())).collect(),
    }
}

/// Returns true if a command's keys are shard channels.
pub(crate) fn takes_channels(spec: &CommandSpec) -> bool {
    spec.keys.first().is_some_and(|keys| keys.flags & KEY_NOT_KEY != 0)
}
