//! The subscriptions of Pub/Sub.
//!
//! There is a registry for each kind of subscription, under a lock that publishers share. The lock
//! is held while a message is put into the inboxes, so that a client that has left the registry
//! gets nothing more. A transaction captures the subscribers when it publishes ([`Receivers`]) and
//! sends after its commit to those that are still subscribed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::notify::receivers::{Kind, Receivers};
use crate::session::client::Client;
use resp::{Protocol, Writer};

type Listeners = BTreeMap<u64, Arc<Client>>;
type Registry = HashMap<Box<[u8]>, Listeners>;

/// All subscriptions.
#[derive(Default)]
pub struct Hub {
    registries: [RwLock<Registry>; 3],
}

/// The subscriptions of one session.
#[derive(Default)]
pub struct Subscriptions {
    /// Each with the number of subscriptions before it.
    names: [BTreeMap<Box<[u8]>, u64>; 3],
    before: u64,
}

impl Subscriptions {
    /// Returns how many there are of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeMap::is_empty)
    }

    /// Returns the names of a kind, in the order in which they were added.
    pub fn names(&self, kind: Kind) -> Vec<Box<[u8]>> {
        let mut names: Vec<_> = self.names[kind as usize].iter().collect();
        names.sort_unstable_by_key(|(_, before)| **before);
        names.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Adds a name; returns false if it was there.
    fn add(&mut self, kind: Kind, name: &[u8]) -> bool {
        let names = &mut self.names[kind as usize];
        let is_new = !names.contains_key(name);
        if is_new {
            names.insert(name.into(), self.before);
            self.before += 1;
        }
        is_new
    }
}

/// A message on its way, encoded once for each protocol of its receivers.
struct Message<'a> {
    words: &'a [&'a [u8]],
    /// See [`Client::post`].
    after: u64,
    encoded: [Vec<u8>; 2],
}

impl<'a> Message<'a> {
    fn new(words: &'a [&'a [u8]], after: u64) -> Message<'a> {
        Message { words, after, encoded: Default::default() }
    }

    fn post(&mut self, client: &Client) {
        let is_new = client.protocol.load(Relaxed) == 3;
        let encoded = &mut self.encoded[usize::from(is_new)];
        if encoded.is_empty() {
            let protocol = if is_new { Protocol::Resp3 } else { Protocol::Resp2 };
            let mut out = Writer::new(protocol);
            out.push(self.words.len());
            self.words.iter().for_each(|word| out.bulk(word));
            *encoded = out.take();
        }
        client.post(encoded, self.after);
    }
}

impl Hub {
    fn read(&self, kind: Kind) -> RwLockReadGuard<'_, Registry> {
        self.registries[kind as usize].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, kind: Kind) -> RwLockWriteGuard<'_, Registry> {
        self.registries[kind as usize].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscription, unless it is there.
    pub fn enter(&self, client: &Arc<Client>, own: &mut Subscriptions, kind: Kind, name: &[u8]) {
        if own.add(kind, name) {
            let mut registry = self.write(kind);
            let listeners = registry.entry(name.into()).or_default();
            listeners.insert(client.id, Arc::clone(client));
            count(client, kind).store(own.count(kind), Relaxed);
        }
    }

    /// Removes a subscription, if it is there.
    pub fn leave(&self, client: &Client, own: &mut Subscriptions, kind: Kind, name: &[u8]) {
        if own.names[kind as usize].remove(name).is_none() {
            return;
        }
        let mut registry = self.write(kind);
        if let Some(listeners) = registry.get_mut(name) {
            listeners.remove(&client.id);
            if listeners.is_empty() {
                registry.remove(name);
            }
        }
        count(client, kind).store(own.count(kind), Relaxed);
    }

    /// Ends the subscriptions to the shard channels that are not served, and tells their clients.
    pub(crate) fn drop_shard_channels(&self, is_served: impl Fn(&[u8]) -> bool) {
        self.write(Kind::Shard).retain(|channel, listeners| {
            let stays = is_served(channel);
            for client in listeners.values().filter(|_| !stays) {
                let left = count(client, Kind::Shard).load(Relaxed).saturating_sub(1);
                count(client, Kind::Shard).store(left, Relaxed);
                let is_new = client.protocol.load(Relaxed) == 3;
                let protocol = if is_new { Protocol::Resp3 } else { Protocol::Resp2 };
                let mut out = Writer::new(protocol);
                out.push(3);
                out.bulk("sunsubscribe");
                out.bulk(channel);
                out.integer(left as i64);
                // Before it can know: what it sends next finds the flag.
                client.lost_channels.store(true, Relaxed);
                client.post(&out.take(), 0);
            }
            stays
        });
    }

    /// Forgets the shard channels that were taken from a session.
    #[cold]
    pub(crate) fn reconcile(&self, client: &Client, own: &mut Subscriptions) {
        client.lost_channels.store(false, Relaxed);
        let registry = self.read(Kind::Shard);
        let is_there = |name: &[u8]| {
            registry.get(name).is_some_and(|listeners| listeners.contains_key(&client.id))
        };
        own.names[Kind::Shard as usize].retain(|name, _| is_there(name));
        count(client, Kind::Shard).store(own.count(Kind::Shard), Relaxed);
    }

    /// Removes all subscriptions of a session.
    pub fn leave_all(&self, client: &Client, own: &mut Subscriptions) {
        for kind in Kind::ALL {
            for name in own.names(kind) {
                self.leave(client, own, kind, &name);
            }
        }
    }

    /// Sends a message to a channel, when the log is settled up to `after`. Returns how often it
    /// was delivered.
    pub fn publish(&self, channel: &[u8], text: &[u8], after: u64) -> usize {
        let direct = self.post(Kind::Channel, &[b"message", channel, text], after);
        let patterns = self.read(Kind::Pattern);
        let fitting = patterns.iter().filter(|(name, _)| resp::glob::matches(name, channel));
        direct
            + fitting
                .map(|(pattern, listeners)| {
                    let words: [&[u8]; 4] = [b"pmessage", pattern, channel, text];
                    deliver(listeners, &words, after)
                })
                .sum::<usize>()
    }

    /// Returns the present subscribers of a channel, or of a shard channel.
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> Receivers {
        let ids = |listeners: &Listeners| listeners.keys().copied().collect();
        let mut by_name = Vec::new();
        if let Some(listeners) = self.read(kind).get(channel) {
            by_name.push((kind, channel.into(), ids(listeners)));
        }
        if kind == Kind::Channel {
            for (name, listeners) in self.read(Kind::Pattern).iter() {
                if resp::glob::matches(name, channel) {
                    by_name.push((Kind::Pattern, name.clone(), ids(listeners)));
                }
            }
        }
        Receivers { channel: channel.into(), by_name }
    }

    /// Sends a message to the clients that were subscribed when `receivers` were captured, except
    /// those that have left since. The publisher, `own`, may have left in the same transaction
    /// after it published.
    pub(crate) fn send(&self, receivers: &Receivers, text: &[u8], own: &Arc<Client>, after: u64) {
        let channel = &*receivers.channel;
        for (kind, name, ids) in &receivers.by_name {
            let words: &[&[u8]] = match kind {
                Kind::Channel => &[b"message", channel, text],
                Kind::Pattern => &[b"pmessage", name, channel, text],
                Kind::Shard => &[b"smessage", channel, text],
            };
            let mut message = Message::new(words, after);
            let registry = self.read(*kind);
            let listeners = registry.get(name);
            for id in ids {
                match listeners.and_then(|listeners| listeners.get(id)) {
                    Some(client) => message.post(client),
                    None if *id == own.id => message.post(own),
                    None => {}
                }
            }
        }
    }

    /// Sends a message to a shard channel, as [`Hub::publish`] does to a channel.
    pub fn publish_shard(&self, channel: &[u8], text: &[u8], after: u64) -> usize {
        self.post(Kind::Shard, &[b"smessage", channel, text], after)
    }

    fn post(&self, kind: Kind, words: &[&[u8]; 3], after: u64) -> usize {
        let registry = self.read(kind);
        registry.get(words[1]).map_or(0, |listeners| deliver(listeners, words, after))
    }

    /// Returns the names that have subscribers and match the pattern, in ascending order.
    pub fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let registry = self.read(kind);
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| resp::glob::matches(pattern, name));
        let mut names: Vec<Box<[u8]>> =
            registry.keys().filter(|name| fits(name)).cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the clients that are subscribed to a `wanted` name, each once.
    pub fn listeners_of_any(&self, wanted: impl Fn(Kind, &[u8]) -> bool) -> Vec<Arc<Client>> {
        let mut found = Listeners::new();
        for kind in Kind::ALL {
            let registry = self.read(kind);
            for (_, listeners) in registry.iter().filter(|(name, _)| wanted(kind, name)) {
                let clients = listeners.iter().map(|(id, client)| (*id, Arc::clone(client)));
                found.extend(clients);
            }
        }
        found.into_values().collect()
    }

    /// Returns how many names of a kind have subscribers.
    pub fn count(&self, kind: Kind) -> usize {
        self.read(kind).len()
    }

    /// Returns how many clients are subscribed to a name.
    pub fn listeners(&self, kind: Kind, name: &[u8]) -> usize {
        self.read(kind).get(name).map_or(0, BTreeMap::len)
    }
}

/// Returns the count of a client's subscriptions of a kind.
fn count(client: &Client, kind: Kind) -> &AtomicUsize {
    &client.subscriptions[kind as usize]
}

fn deliver(listeners: &Listeners, words: &[&[u8]], after: u64) -> usize {
    let mut message = Message::new(words, after);
    listeners.values().for_each(|client| message.post(client));
    listeners.len()
}
