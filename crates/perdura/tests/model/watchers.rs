//! Who waits for a key is woken by each call that changes it: whichever call, handle, type and
//! database.
//!
//! A future waits for each of some keys, and never ends. After each step of a session, those of the
//! keys that the model changed must have been woken. Expiry alone wakes nobody.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

use perdura::prelude::*;
use perdura::{Error, Perdura};

use super::session::Dbs;
use super::state::{Bytes, Checked, Db, Held};

/// Keys that are waited for at a time.
const MOST: usize = 48;

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

struct Watcher {
    future: Pin<Box<dyn Future<Output = Result<(), Error>>>>,
    counting: Arc<Counting>,
    /// How often it had been woken when it was last polled.
    polled: usize,
    /// The key in each database at that time.
    held: Vec<Option<Held>>,
}

#[derive(Default)]
pub(crate) struct Watchers(BTreeMap<Bytes, Watcher>);

fn held(dbs: &Dbs, key: &[u8]) -> Vec<Option<Held>> {
    dbs.iter().map(|db| db.keys.get(key).cloned()).collect()
}

/// Returns what is left of a value after a time.
fn left(held: &Option<Held>, key: &[u8], now: u64) -> Option<Held> {
    let mut db = Db::default();
    db.keys.extend(held.clone().map(|held| (key.to_vec(), held)));
    db.at(now);
    db.keys.remove(key)
}

impl Watcher {
    fn new(store: &Arc<Perdura>, key: &[u8]) -> Watcher {
        let (store, key) = (Arc::clone(store), key.to_vec());
        let future = Box::pin(async move {
            let used = key.clone();
            store.transact_async(&key, move |tx| tx.exists(&used).map(|_| None)).await
        });
        Watcher { future, counting: Arc::default(), polled: 0, held: Vec::new() }
    }

    fn poll(&mut self, key: &[u8], dbs: &Dbs) -> Checked {
        self.polled = self.counting.0.load(SeqCst);
        let waker = Waker::from(Arc::clone(&self.counting));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        self.held = held(dbs, key);
        match polled.is_pending() {
            true => Ok(()),
            false => Err(format!("a wait for {} ended: {polled:?}", key.escape_ascii())),
        }
    }
}

impl Watchers {
    /// Checks that each key that has changed woke its watcher, and waits for new keys.
    pub(crate) fn check(&mut self, store: &Arc<Perdura>, dbs: &Dbs) -> Checked {
        for (key, watcher) in &mut self.0 {
            if watcher.counting.0.load(SeqCst) > watcher.polled {
                watcher.poll(key, dbs)?;
                continue;
            }
            for (old, db) in watcher.held.iter_mut().zip(dbs) {
                let new = db.keys.get(key);
                if old.as_ref() == new {
                    continue;
                }
                if left(old, key, db.now).as_ref() != new {
                    let key = key.escape_ascii();
                    return Err(format!("a missed wake-up: {key} changed, and its wait sleeps"));
                }
                *old = new.cloned();
            }
        }
        let more = MOST.saturating_sub(self.0.len());
        let keys = dbs.iter().flat_map(|db| db.keys.keys());
        let new: Vec<Bytes> =
            keys.filter(|key| !self.0.contains_key(*key)).take(more).cloned().collect();
        for key in new {
            let mut watcher = Watcher::new(store, &key);
            watcher.poll(&key, dbs)?;
            self.0.insert(key, watcher);
        }
        Ok(())
    }

    /// Ends all waits.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
