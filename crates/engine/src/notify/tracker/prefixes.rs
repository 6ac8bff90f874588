//! The clients that are notified of all keys with a prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use super::message::{Message, News};
use crate::session::client::{Client, Clients};

type Listeners = BTreeMap<u64, Arc<Client>>;

#[derive(Default)]
pub(crate) struct Prefixes {
    all: RwLock<BTreeMap<Box<[u8]>, Listeners>>,
    len: AtomicUsize,
}

impl Prefixes {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub(crate) fn add(&self, client: &Arc<Client>, prefix: &[u8]) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(prefix.into()).or_default().insert(client.id, Arc::clone(client));
        self.len.store(all.len(), Relaxed);
    }

    pub(crate) fn remove(&self, client: &Client, prefix: &[u8]) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(listeners) = all.get_mut(prefix) {
            listeners.remove(&client.id);
            if listeners.is_empty() {
                all.remove(prefix);
            }
        }
        self.len.store(all.len(), Relaxed);
    }

    /// Notifies clients of changed keys, those of a prefix in one message, when the log is settled
    /// up to `after`. `by` is the client that changed them, 0 for none.
    pub(crate) fn notify(&self, clients: &Clients, keys: &BTreeSet<&[u8]>, by: u64, after: u64) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        for (prefix, listeners) in &*all {
            let fitting = keys.iter().copied().filter(|key| key.starts_with(prefix));
            let fitting: Vec<&[u8]> = fitting.collect();
            if fitting.is_empty() {
                continue;
            }
            let mut message = Message::new(News::Keys(&fitting), after);
            for client in listeners.values() {
                if client.id != by || !client.tracking.options().no_loop {
                    message.send(clients, client);
                }
            }
        }
    }
}
