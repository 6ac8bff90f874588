//! An open store, and calls that are each a transaction of their own, in database 0.

use std::mem::MaybeUninit;
use std::time::Duration;

use perdura::Perdura;
use perdura::prelude::*;

use crate::bytes::{PerduraBytes, answer, needed};
use crate::options::PerduraOptions;
use crate::status::{PerduraStatus, guarded};

/// An open store: from perdura_open, released by perdura_close.
#[derive(Debug)]
pub struct PerduraStore(pub(crate) Perdura);

/// Returns the status of something that exists or does not.
pub(crate) fn found(is_there: bool) -> PerduraStatus {
    if is_there { PerduraStatus::Ok } else { PerduraStatus::NotFound }
}

/// Opens a store, recovering it if it was not closed. The options stay the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_open(
    options: Option<&PerduraOptions>,
    store: Option<&mut MaybeUninit<Option<Box<PerduraStore>>>>,
) -> PerduraStatus {
    guarded(|| {
        let store = needed(store)?.write(None);
        let opened = Perdura::open(needed(options)?.options())?;
        *store = Some(Box::new(PerduraStore(opened)));
        Ok(PerduraStatus::Ok)
    })
}

/// Closes a store and releases it, whatever is returned. No other thread may use it. A program that
/// ends without this loses no data that the persistence domain preserves.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_close(store: Option<Box<PerduraStore>>) -> PerduraStatus {
    guarded(|| {
        if let Some(store) = store {
            store.0.close()?;
        }
        Ok(PerduraStatus::Ok)
    })
}

/// Makes all earlier writes durable, if calls do not wait for that.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_flush(store: Option<&PerduraStore>) -> PerduraStatus {
    guarded(|| {
        needed(store)?.0.flush()?;
        Ok(PerduraStatus::Ok)
    })
}

/// Returns how many keys there are, expired ones that are not deleted yet included.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_count(store: Option<&PerduraStore>) -> u64 {
    store.map_or(0, |store| store.0.len())
}

/// Reads a value, which the caller releases with perdura_bytes_free; PERDURA_STATUS_NOT_FOUND, and
/// null, if there is no such key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_get(
    store: Option<&PerduraStore>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut MaybeUninit<PerduraBytes>>,
) -> PerduraStatus {
    guarded(|| answer(value, || Ok(needed(store)?.0.get(bytes!(key, key_len))?)))
}

/// Sets a value; the key does not expire.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set(
    store: Option<&PerduraStore>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> PerduraStatus {
    guarded(|| {
        needed(store)?.0.set(bytes!(key, key_len), bytes!(value, value_len))?;
        Ok(PerduraStatus::Ok)
    })
}

/// Sets a value that expires after this many milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_set_for(
    store: Option<&PerduraStore>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    milliseconds: u64,
) -> PerduraStatus {
    guarded(|| {
        let ttl = Duration::from_millis(milliseconds);
        needed(store)?.0.set_for(bytes!(key, key_len), bytes!(value, value_len), ttl)?;
        Ok(PerduraStatus::Ok)
    })
}

/// Deletes a key, whatever it holds; PERDURA_STATUS_NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_delete(
    store: Option<&PerduraStore>,
    key: *const u8,
    key_len: usize,
) -> PerduraStatus {
    guarded(|| Ok(found(needed(store)?.0.delete(bytes!(key, key_len))?)))
}

/// Adds to an integer, 0 if there is no key. `sum` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_increment(
    store: Option<&PerduraStore>,
    key: *const u8,
    key_len: usize,
    by: i64,
    sum: Option<&mut MaybeUninit<i64>>,
) -> PerduraStatus {
    guarded(|| {
        let new = needed(store)?.0.increment(bytes!(key, key_len), by)?;
        sum.map(|sum| sum.write(new));
        Ok(PerduraStatus::Ok)
    })
}
