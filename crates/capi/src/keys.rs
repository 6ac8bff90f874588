//! Iteration over keys: a cursor that holds no lock, and no borrow of the store.

use std::mem::MaybeUninit;

use perdura::KeyCursor;

use crate::bytes::{PerduraBytes, answer, needed};
use crate::status::{PerduraStatus, guarded};
use crate::store::PerduraStore;

/// The position of an iteration: from perdura_keys, released by perdura_cursor_free.
#[derive(Debug)]
pub struct PerduraCursor(KeyCursor);

/// Starts an iteration over the keys that begin with some bytes, in no particular order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_keys(
    store: Option<&PerduraStore>,
    prefix: *const u8,
    prefix_len: usize,
    cursor: Option<&mut MaybeUninit<Option<Box<PerduraCursor>>>>,
) -> PerduraStatus {
    guarded(|| {
        let cursor = needed(cursor)?.write(None);
        let keys = needed(store)?.0.keys().prefix(bytes!(prefix, prefix_len));
        *cursor = Some(Box::new(PerduraCursor(keys.into_cursor())));
        Ok(PerduraStatus::Ok)
    })
}

/// Reads the next key, which the caller releases with perdura_bytes_free; PERDURA_STATUS_NOT_FOUND
/// at the end. The store is the one that the iteration was started on. No lock is held between two
/// calls: a key that exists from start to end is returned at least once, seldom twice; one that is
/// added or deleted meanwhile may be returned or not.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_next(
    store: Option<&PerduraStore>,
    cursor: Option<&mut PerduraCursor>,
    key: Option<&mut MaybeUninit<PerduraBytes>>,
) -> PerduraStatus {
    guarded(|| {
        answer(key, || {
            let (store, cursor) = (needed(store)?, needed(cursor)?);
            Ok(cursor.0.next(&store.0).transpose()?)
        })
    })
}

/// Releases a cursor.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_cursor_free(cursor: Option<Box<PerduraCursor>>) {
    drop(cursor);
}
