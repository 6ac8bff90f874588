//! COUNTKEYSINSLOT, GETKEYSINSLOT and KEYSLOT.
//!
//! All keys of a slot are in one shard, so that the shard is locked and its keys are visited.

use engine::call::Call;
use engine::execute::Scope;
use engine::failure::Done;
use keyspace::{Db, Txn, slot};

use super::check_on;

/// Returns the shard of a slot's keys.
pub(super) fn shard_of(call: &Call<'_>, slot: u16) -> usize {
    usize::from(slot) % call.engine.keyspace().shards()
}

/// Visits the keys of a slot, whose shard is locked.
pub(super) fn for_each_in_slot(txn: &Txn<'_>, wanted: u16, visit: &mut dyn FnMut(&[u8])) {
    txn.database(Db::default()).for_each(&mut |key, _| {
        if slot(key) == wanted {
            visit(key);
        }
    });
}

pub(super) fn key_slot(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    call.out.integer(i64::from(slot(call.args[2])));
    Ok(())
}

pub(super) fn count_keys(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let slot = checked_slot(call, "ERR Invalid slot")?;
    let shard = shard_of(call, slot);
    call.engine.transact(call, Scope::Shard(shard), count_locked)
}

pub(super) fn count_locked(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    check_on(call)?;
    let slot = checked_slot(call, "ERR Invalid slot")?;
    let mut count = 0;
    for_each_in_slot(txn, slot, &mut |_| count += 1);
    call.shows_data = true;
    call.out.integer(count);
    Ok(())
}

const NO_KEYS: &str = "ERR Invalid slot or number of keys";

pub(super) fn get_keys(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let shard = shard_of(call, checked_slot(call, NO_KEYS)?);
    call.engine.transact(call, Scope::Shard(shard), get_locked)
}

pub(super) fn get_locked(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    check_on(call)?;
    let slot = checked_slot(call, NO_KEYS)?;
    let most = usize::try_from(call.int(3)?).map_err(|_| NO_KEYS)?;
    let start = call.out.deferred();
    let mut count = 0;
    for_each_in_slot(txn, slot, &mut |key| {
        if count < most {
            call.out.bulk(key);
            count += 1;
        }
    });
    call.shows_data = true;
    call.out.finish_array(start, count);
    Ok(())
}

fn checked_slot(call: &Call<'_>, refusal: &'static str) -> Result<u16, engine::Failure> {
    let slot = u16::try_from(call.int(2)?).ok();
    slot.filter(|slot| *slot < cluster::SLOTS).ok_or_else(|| refusal.into())
}
