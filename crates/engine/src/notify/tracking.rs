//! Client-side caching: a client that keeps copies of what it read is notified when they are no
//! longer valid (CLIENT TRACKING).
//!
//! None of this is data: it is not durable, not logged, and ends with the connection.
//!
//! **By key.** The server remembers which client read which key ([`crate::notify::tracker`]). When
//! the key changes, expires or is evicted, the client is notified once and the key is forgotten; it
//! is remembered again when it is read again. Databases are not told apart, and SWAPDB changes no
//! key, as in Redis. A bound on the number of keys (`tracking-table-max-keys`) holds at each read:
//! clients are notified of keys forgotten for it as if these had changed.
//!
//! **By prefix.** In broadcasting mode nothing is remembered: the client is notified of all changes
//! of keys with its prefixes ([`crate::notify::tracker`]), those of one transaction in one message.
//!
//! **Why no change escapes.** A read is remembered under the lock of its key's shard, by the
//! transaction that reads. A writer of the key holds that lock from before the change until the
//! key's clients were notified. So either it comes before the read, which sees the change, or
//! after, and finds the client in the table. The list of changes that this relies on is kept from
//! when a client begins to track ([`keyspace::Keyspace::listen`]), which is before it reads.
//!
//! **Order within a connection.** A message goes through the client's inbox, after the replies of
//! commands that were executed before: a client is notified of its own change, and of a change of
//! what it read, after the reply. The commands of a transaction are treated one by one: what was
//! read after a change is valid.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::atomic::Ordering::Relaxed;

use keyspace::{Event, Key, Txn};

use crate::engine::Engine;
use crate::execute::call::{Call, Run};
use crate::notify::tracker::{Message, News};
use crate::session::Session;
use crate::session::client::TrackingOptions;
use crate::table::spec::READONLY;

/// The changes of a transaction, of which clients are notified.
#[derive(Clone, Copy)]
pub(crate) struct Changes<'f> {
    /// Whether it changed what it lists.
    pub(crate) changed: bool,
    /// For each time that it emptied databases, the number of changes before.
    pub(crate) flushes: &'f [usize],
    /// The position in the log after everything that it showed or changed.
    pub(crate) after: u64,
}

/// Events between the changes of a transaction, each with the number of changes before it.
struct Before<F: Iterator<Item = usize>, R: Iterator<Item = (usize, Box<[u8]>)>> {
    /// Databases were emptied.
    flushes: Peekable<F>,
    /// A key was read.
    reads: Peekable<R>,
}

impl<F: Iterator<Item = usize>, R: Iterator<Item = (usize, Box<[u8]>)>> Before<F, R> {
    /// Handles the events up to a change. If a flush and a read come after the same change, their
    /// order is not known: a key that was read after the flush must not be forgotten.
    fn catch_up(
        &mut self,
        engine: &Engine,
        at: usize,
        own: u64,
        mut session: Option<&mut Session>,
    ) {
        let Some(session) = session.as_mut() else { return };
        loop {
            let read = self.reads.peek().map_or(usize::MAX, |(after, _)| *after);
            if self.flushes.next_if(|after| *after <= at && *after <= read).is_some() {
                engine.tracking_clients().notify_of_flush(session, own);
            } else if let Some((_, key)) = self.reads.next_if(|(after, _)| *after <= at) {
                let shard = engine.keyspace().key(&key).shard();
                engine.tracker().keys.add(shard, &key, session.id());
            } else {
                return;
            }
        }
    }
}

/// The clients that track keys.
#[derive(Clone, Copy)]
pub struct TrackingClients<'e> {
    pub(super) engine: &'e Engine,
}

impl Engine {
    /// Returns its clients that track keys.
    #[inline]
    pub fn tracking_clients(&self) -> TrackingClients<'_> {
        TrackingClients { engine: self }
    }
}

impl TrackingClients<'_> {
    /// Notifies the client of changes from now on, also of those to the prefixes that it gave
    /// before. The prefixes are empty unless the options ask for notification by prefix.
    pub fn begin(&self, session: &mut Session, options: TrackingOptions, prefixes: &[&[u8]]) {
        let client = &session.client;
        if !client.tracking.is_on() {
            (0..self.engine.keyspace().shards())
                .for_each(|shard| self.engine.keyspace().listen(shard));
            self.engine.tracker().clients.fetch_add(1, Relaxed);
        }
        client.tracking.begin(options);
        for prefix in prefixes {
            self.engine.tracker().prefixes.add(client, prefix);
            session.prefixes.insert((*prefix).into());
        }
        client.prefixes.store(session.prefixes.len(), Relaxed);
    }

    /// Stops notifying the client. Its keys are forgotten when they change.
    pub fn end(&self, session: &mut Session) {
        session.caching = false;
        if !session.client.tracking.is_on() {
            return;
        }
        for prefix in std::mem::take(&mut session.prefixes) {
            self.engine.tracker().prefixes.remove(&session.client, &prefix);
        }
        session.client.prefixes.store(0, Relaxed);
        session.client.tracking.end();
        (0..self.engine.keyspace().shards())
            .for_each(|shard| self.engine.keyspace().unlisten(shard));
        if self.engine.tracker().clients.fetch_sub(1, Relaxed) == 1 {
            // From now on changes remove no key.
            let has = |id| {
                self.engine.clients().get(id).is_some_and(|client| client.tracking.is_by_key())
            };
            self.engine.tracker().keys.retain(has);
        }
    }

    /// Remembers, in the transaction that read them, which keys a command gave the client. For a
    /// command that a script calls, these are the script's declared keys, as in Redis: its results
    /// follow from them.
    #[inline]
    pub(crate) fn remember_reads(&self, call: &mut Call<'_>, txn: &Txn<'_>) {
        if call.command.spec.has(READONLY) && call.session.client.tracking.is_by_key() {
            self.remember_keys(call, txn.pending_changes());
        }
    }

    /// Data that was read after a change or a flush is valid, so its keys are remembered after
    /// clients were notified of those.
    #[cold]
    fn remember_keys(&self, call: &mut Call<'_>, changes: usize) {
        let session = &mut *call.session;
        if !session.client.tracking.remembers(session.caching)
            || matches!(call.command.spec.run, Run::Script(..))
        {
            return;
        }
        let keys = call.script_keys.unwrap_or(call.keys);
        if changes > 0 || call.effects.has_deliveries() {
            let read = |key: &Key<'_>| (changes, key.bytes().into());
            return session.reads_of_changed.extend(keys.iter().map(read));
        }
        for key in keys {
            self.engine.tracker().keys.add(key.shard(), key.bytes(), session.id());
        }
        self.forget_some_keys(keys.len());
    }

    /// Forgets keys until there are no more than `tracking-table-max-keys`.
    pub fn limit_cached_keys(&self) {
        self.forget_some_keys(usize::MAX);
    }

    /// Forgets at most `count` keys.
    fn forget_some_keys(&self, count: usize) {
        let most = self.engine.config().tracking_table_max_keys();
        if most == 0 {
            return;
        }
        for _ in 0..count {
            if self.engine.tracker().keys.len() <= most {
                return;
            }
            let Some((key, ids)) = self.engine.tracker().keys.take_any() else { return };
            self.notify_of_key(&key, &ids, 0, 0);
        }
    }

    /// Notifies clients of the changes of a committed transaction, which still holds its locks;
    /// `session` is the one that made them.
    #[inline]
    pub(crate) fn notify(
        &self,
        txn: &Txn<'_>,
        changes: Changes<'_>,
        session: Option<&mut Session>,
    ) {
        if self.engine.tracker().clients() > 0 {
            self.notify_of_changes(txn, changes, session);
        }
    }

    #[cold]
    fn notify_of_changes(
        &self,
        txn: &Txn<'_>,
        Changes { changed, flushes, after: own }: Changes<'_>,
        mut session: Option<&mut Session>,
    ) {
        let by = session.as_ref().map_or(0, |session| session.id());
        let reads = session.as_mut().map(|session| std::mem::take(&mut session.reads_of_changed));
        let mut before = Before {
            flushes: flushes.iter().copied().peekable(),
            reads: reads.unwrap_or_default().into_iter().peekable(),
        };
        let mut keys = BTreeSet::new();
        let changes = txn.changes().take(if changed { usize::MAX } else { 0 });
        for (at, change) in changes.enumerate() {
            before.catch_up(self.engine, at, own, session.as_deref_mut());
            if matches!(change.event, Event::Flushed | Event::MetadataOnly | Event::Missed) {
                continue;
            }
            if self.engine.tracker().prefixes() > 0 {
                keys.insert(change.key);
            }
            let shard = self.engine.keyspace().key(change.key).shard();
            if let Some(ids) = self.engine.tracker().keys.take(shard, change.key) {
                self.notify_of_key(change.key, &ids, by, own);
            }
        }
        before.catch_up(self.engine, usize::MAX, own, session);
        if !keys.is_empty() {
            self.engine.tracker().prefixes.notify(
                self.engine.clients(),
                &keys,
                by,
                self.engine.durability().sent_after(own),
            );
        }
    }

    /// Notifies the clients that have a key, which `by` changed by a write that ends in the log at
    /// `own`.
    fn notify_of_key(&self, key: &[u8], ids: &[u64], by: u64, own: u64) {
        let keys = [key];
        let mut message = Message::new(News::Keys(&keys), self.engine.durability().sent_after(own));
        for client in ids.iter().filter_map(|id| self.engine.clients().get(*id)) {
            let is_own = client.id == by && client.tracking.options().no_loop;
            if client.tracking.is_by_key() && !is_own {
                message.send(self.engine.clients(), &client);
            }
        }
    }

    /// Notifies clients of a key that was cut out, which no transaction lists.
    pub(crate) fn notify_of_lost(&self, key: &Key<'_>) {
        if self.engine.tracker().clients() > 0 {
            if let Some(ids) = self.engine.tracker().keys.take(key.shard(), key.bytes()) {
                self.notify_of_key(key.bytes(), &ids, 0, 0);
            }
            let keys = BTreeSet::from([key.bytes()]);
            self.engine.tracker().prefixes.notify(
                self.engine.clients(),
                &keys,
                0,
                self.engine.durability().sent_after(0),
            );
        }
    }

    /// Notifies every client that a database was emptied: as in Redis, none of its copies is valid.
    pub fn notify_of_flush(&self, session: &mut Session, own: u64) {
        if self.engine.tracker().keys.len() > 0 {
            // Dropped when the command has released its locks.
            session.forgotten.extend(self.engine.tracker().keys.clear());
        }
        if self.engine.tracker().clients() > 0 {
            let mut message =
                Message::new(News::Everything, self.engine.durability().sent_after(own));
            for client in
                self.engine.clients().list().iter().filter(|client| client.tracking.is_on())
            {
                message.send(self.engine.clients(), client);
            }
        }
    }
}
