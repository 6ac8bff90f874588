//! Refuses calls of a store from inside one of its own transactions.
//!
//! A transaction holds the locks of its shards, which are not reentrant. A call of the store from
//! inside its closure, or from the closure of [`crate::Perdura::get_with`], would deadlock with its
//! own thread if the shards coincide, and would lock shards in an uncontrolled order if they do
//! not. So each thread remembers the stores in whose closures it is, and every call that takes a
//! lock checks that. Calls that a closure makes on other threads are not noticed.

use std::cell::RefCell;

use keyspace::Keyspace;

use crate::Error;

thread_local! {
    /// The addresses of the stores in whose closures this thread is; seldom more than one. Every
    /// call accesses this, so that a thread's first one makes the statistics count its fences.
    static ENTERED: RefCell<Vec<usize>> = {
        pmem::share_counters();
        RefCell::default()
    };
}

fn id(store: &Keyspace) -> usize {
    std::ptr::from_ref(store).addr()
}

/// Returns true if this thread is in a closure of this store.
pub(crate) fn is_entered(store: &Keyspace) -> bool {
    ENTERED.with_borrow(|entered| entered.contains(&id(store)))
}

/// Refuses a call that takes locks of the store.
pub(crate) fn refuse(store: &Keyspace) -> Result<(), Error> {
    if is_entered(store) { Err(Error::Reentrant) } else { Ok(()) }
}

/// The time during which a closure of the store runs on this thread.
pub(crate) struct Entered;

impl Entered {
    /// Begins it, unless this thread is in one already.
    pub(crate) fn new(store: &Keyspace) -> Result<Entered, Error> {
        refuse(store)?;
        ENTERED.with_borrow_mut(|entered| entered.push(id(store)));
        Ok(Entered)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Closures end in the reverse order of their start, also those that panic.
        ENTERED.with_borrow_mut(|entered| entered.pop());
    }
}
