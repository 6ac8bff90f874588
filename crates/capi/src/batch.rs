//! Many writes as one transaction, without a function that is called back.

use perdura::WriteBatch;

use crate::bytes::needed;
use crate::status::{PerduraStatus, guarded};
use crate::store::PerduraStore;

/// Strings to be set and keys to be deleted, all or nothing: from perdura_batch_new, released by
/// perdura_batch_free.
#[derive(Debug, Default)]
pub struct PerduraBatch(WriteBatch);

/// Returns an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_batch_new() -> Option<Box<PerduraBatch>> {
    Some(Box::default())
}

/// Adds a value to be set. The bytes are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_batch_set(
    batch: Option<&mut PerduraBatch>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> PerduraStatus {
    guarded(|| {
        needed(batch)?.0.set(bytes!(key, key_len), bytes!(value, value_len));
        Ok(PerduraStatus::Ok)
    })
}

/// Adds a key to be deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_batch_delete(
    batch: Option<&mut PerduraBatch>,
    key: *const u8,
    key_len: usize,
) -> PerduraStatus {
    guarded(|| {
        needed(batch)?.0.delete(bytes!(key, key_len));
        Ok(PerduraStatus::Ok)
    })
}

/// Executes a batch, in its order, as one transaction. It can be written again.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_write(
    store: Option<&PerduraStore>,
    batch: Option<&PerduraBatch>,
) -> PerduraStatus {
    guarded(|| {
        needed(store)?.0.write(&needed(batch)?.0)?;
        Ok(PerduraStatus::Ok)
    })
}

/// Releases a batch.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_batch_free(batch: Option<Box<PerduraBatch>>) {
    drop(batch);
}
