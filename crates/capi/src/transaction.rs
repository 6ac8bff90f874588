//! A transaction: a function of the program, whose calls take effect all or nothing.
//!
//! It is a callback, not a pair of calls that begin and commit: so the locks of a transaction
//! cannot be forgotten, and if another thread has locked a key, the attempt is dropped and the
//! function runs again, which two calls could not do.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use perdura::prelude::*;
use perdura::{Error, Transaction};

use crate::bytes::{PerduraBytes, answer, needed};
use crate::status::{Failure, PerduraStatus, guarded};
use crate::store::{PerduraStore, found};

/// An open transaction: valid until the function that got it returns.
pub struct PerduraTransaction<'t, 's> {
    transaction: &'t Transaction<'s>,
    /// Whether a call ended in a panic, and may have left its work half done.
    has_panicked: Cell<bool>,
}

impl std::fmt::Debug for PerduraTransaction<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerduraTransaction").finish_non_exhaustive()
    }
}

/// Why a transaction was not committed.
enum Ended {
    Refused,
    Panicked,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Failed(error)
    }
}

/// Runs `work` all or nothing: the changes of its calls of perdura_transaction_* are committed if
/// it returns 0, and undone otherwise (PERDURA_STATUS_REFUSED). `context` is passed to it.
///
/// The keys that it uses are locked until it returns. If another thread has locked one of them,
/// `work` runs again, so that it may run several times before it is committed: its other effects
/// must tolerate that. It must not call the store itself (PERDURA_STATUS_REENTRANT), nor wait for a
/// thread that does, nor be left by longjmp or an exception.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_transact(
    store: Option<&PerduraStore>,
    work: Option<
        extern "C" fn(transaction: &PerduraTransaction<'_, '_>, context: *mut c_void) -> i32,
    >,
    context: *mut c_void,
) -> PerduraStatus {
    guarded(|| {
        let (store, work) = (needed(store)?, needed(work)?);
        let done = store.0.try_transact(|tx| {
            let lent = PerduraTransaction { transaction: tx, has_panicked: Cell::new(false) };
            match work(&lent, context) {
                _ if lent.has_panicked.get() => Err(Ended::Panicked),
                0 => Ok(()),
                _ => Err(Ended::Refused),
            }
        });
        match done {
            Ok(()) => Ok(PerduraStatus::Ok),
            Err(Ended::Failed(error)) => Err(error.into()),
            Err(Ended::Panicked) => Err(Failure::new(
                PerduraStatus::Panic,
                "an error inside of a call of the transaction",
            )),
            Err(Ended::Refused) => {
                Err(Failure::new(PerduraStatus::Refused, "the function refused the transaction"))
            }
        }
    })
}

/// Runs a call of a transaction; one that panics is not committed.
fn within<'t, 's>(
    transaction: Option<&PerduraTransaction<'t, 's>>,
    call: impl FnOnce(&'t Transaction<'s>) -> Result<PerduraStatus, Failure>,
) -> PerduraStatus {
    let status = guarded(|| call(needed(transaction)?.transaction));
    if let Some(lent) = transaction.filter(|_| status == PerduraStatus::Panic) {
        lent.has_panicked.set(true);
    }
    status
}

/// Reads a value, like perdura_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_transaction_get(
    transaction: Option<&PerduraTransaction<'_, '_>>,
    key: *const u8,
    key_len: usize,
    value: Option<&mut MaybeUninit<PerduraBytes>>,
) -> PerduraStatus {
    within(transaction, |tx| answer(value, || Ok(tx.get(bytes!(key, key_len))?)))
}

/// Sets a value; the key does not expire.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_transaction_set(
    transaction: Option<&PerduraTransaction<'_, '_>>,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> PerduraStatus {
    within(transaction, |tx| {
        tx.set(bytes!(key, key_len), bytes!(value, value_len))?;
        Ok(PerduraStatus::Ok)
    })
}

/// Deletes a key, like perdura_delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_transaction_delete(
    transaction: Option<&PerduraTransaction<'_, '_>>,
    key: *const u8,
    key_len: usize,
) -> PerduraStatus {
    within(transaction, |tx| Ok(found(tx.delete(bytes!(key, key_len))?)))
}

/// Adds to an integer, like perdura_increment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_transaction_increment(
    transaction: Option<&PerduraTransaction<'_, '_>>,
    key: *const u8,
    key_len: usize,
    by: i64,
    sum: Option<&mut MaybeUninit<i64>>,
) -> PerduraStatus {
    within(transaction, |tx| {
        let new = tx.increment(bytes!(key, key_len), by)?;
        sum.map(|sum| sum.write(new));
        Ok(PerduraStatus::Ok)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::{Options, Perdura};

    extern "C" fn panicking(transaction: &PerduraTransaction<'_, '_>, _: *mut c_void) -> i32 {
        let set = within(Some(transaction), |tx| {
            tx.set("a", "half")?;
            panic!("in the middle")
        });
        assert_eq!(set, PerduraStatus::Panic);
        0
    }

    #[test]
    fn a_transaction_in_which_a_call_panicked_is_not_committed() {
        let store = Perdura::open(Options::volatile().background(false)).expect("a store");
        let store = PerduraStore(store);
        let done = perdura_transact(Some(&store), Some(panicking), std::ptr::null_mut());
        assert_eq!(done, PerduraStatus::Panic);
        assert_eq!(store.0.get("a"), Ok(None));
    }
}
