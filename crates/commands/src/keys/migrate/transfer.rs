//! Transfers the keys: reads and watches, sends and deletes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::Engine;
use engine::call::Call;
use engine::execute::Scope;
use engine::failure::{Done, Failure, log_failed};
use keyspace::{Key, Txn, Watch};

use super::Migration;
use super::target::Target;
use crate::keys::dump;

/// The error if a key changes faster than it is sent.
const CHANGED: &str =
    "TRYAGAIN a key was changed each time it was sent: it is here, and the target has it too";

/// The number of keys that are sent before the replies are read.
pub const BATCH_KEYS: usize = 256;
/// The number of bytes of values that are sent before the replies are read.
pub const BATCH_BYTES: usize = 1 << 20;
/// How often a key that changes meanwhile is sent.
const TRIES: usize = 16;

/// A key that has been watched since it was read.
struct Sent<'e> {
    engine: &'e Engine,
    /// Its index among the keys.
    key: usize,
    watch: Option<Watch>,
    is_changed: Arc<AtomicBool>,
    /// True if the other server has it, or has deleted it again.
    is_taken: bool,
    /// True if ASKING was sent before it, which has a reply of its own.
    asked: bool,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.engine.keyspace().unwatch(watch);
        }
    }
}

/// A value that was read.
struct Value {
    payload: Vec<u8>,
    /// The remaining TTL in milliseconds; 0 for none.
    ttl: u64,
}

/// A migration under way.
struct Transfer<'t, 'a> {
    engine: &'t Engine,
    migration: &'t Migration<'a>,
    keys: Vec<Key<'t>>,
    target: Option<Target<'t>>,
    /// The first error reply of the other server.
    refusal: Option<Vec<u8>>,
}

/// Sends all keys, and answers the client.
pub(super) fn run(call: &mut Call<'_>, migration: &Migration<'_>) -> Done {
    let engine = call.engine;
    let keys = migration.keys.iter().map(|key| engine.keyspace().key(key)).collect();
    let mut transfer = Transfer { engine, migration, keys, target: None, refusal: None };
    let mut from = 0;
    while from < transfer.keys.len() {
        from = transfer.batch(call, from)?;
    }
    match (&transfer.refusal, &transfer.target) {
        (Some(text), _) => {
            let text = String::from_utf8_lossy(text);
            Err(Failure::text(format!("ERR Target instance replied with error: {text}")))
        }
        (None, None) => {
            call.out.simple("NOKEY");
            Ok(())
        }
        (None, Some(_)) => {
            call.out.ok();
            Ok(())
        }
    }
}

impl<'t> Transfer<'t, '_> {
    /// Moves as many keys from this index on as fit into a batch. Returns the index of the first
    /// one that did not.
    fn batch(&mut self, call: &mut Call<'_>, from: usize) -> Result<usize, Failure> {
        let (mut next, mut bytes, mut sent) = (from, 0, Vec::new());
        while next < self.keys.len() && sent.len() < BATCH_KEYS && bytes < BATCH_BYTES {
            let (value, mut watched) = self.read(call, next)?;
            if let Some(value) = value {
                bytes += value.payload.len();
                self.send(next, &value, self.migration.replace)?;
                watched.is_taken = false;
                sent.push(watched);
            }
            next += 1;
        }
        for _ in 0..TRIES {
            // Keys that the other server has acknowledged are deleted, also if the connection then
            // ends.
            let received = self.receive(&mut sent);
            let changed = self.delete(call, sent)?;
            received?;
            if changed.is_empty() {
                return Ok(next);
            }
            sent = self.send_again(call, &changed)?;
        }
        Err(CHANGED.into())
    }

    /// Reads a key and watches it from then on, unless it is only copied.
    fn read(&self, call: &mut Call<'_>, key: usize) -> Result<(Option<Value>, Sent<'t>), Failure> {
        let mut sent = Sent {
            engine: self.engine,
            key,
            watch: None,
            is_changed: Arc::default(),
            is_taken: true,
            asked: false,
        };
        let mut value = None;
        let keys = std::slice::from_ref(&self.keys[key]);
        self.transact(call, keys, |call, txn| {
            let (db, key) = (call.db(), &call.keys[0]);
            let Some(entry) = txn.find(db, key) else { return Ok(()) };
            let payload = dump::payload_of(call.engine.config(), txn, &entry)?;
            let left = |at: u64| at.saturating_sub(call.now_ms()).max(1);
            value = Some(Value { payload, ttl: txn.properties(&entry).expiry().map_or(0, left) });
            if !self.migration.copy
                && let Some(watch) = txn.watch(db, key, &sent.is_changed)
            {
                sent.watch = Some(watch);
            }
            Ok(())
        })?;
        self.wait_until_durable(call.reply_after)?;
        Ok((value, sent))
    }

    /// Waits until the value that was read is as durable as a reply would make it: the other server
    /// must not have what a crash takes here.
    fn wait_until_durable(&self, reply_after: u64) -> Done {
        let Some(log) = self.engine.log().filter(|log| log.is_synchronous()) else { return Ok(()) };
        if log.is_synced(reply_after) || log.sync_to(reply_after) {
            return Ok(());
        }
        Err(log_failed(log.name(), &log.failure().unwrap_or_default()))
    }

    fn send(&mut self, key: usize, value: &Value, replace: bool) -> Done {
        let ttl = value.ttl.to_string();
        let is_node = self.engine.cluster().is_on();
        let name: &[u8] = if is_node { b"RESTORE-ASKING" } else { b"RESTORE" };
        let mut words: Vec<&[u8]> =
            vec![name, self.keys[key].bytes(), ttl.as_bytes(), &value.payload];
        if replace {
            words.push(b"REPLACE");
        }
        let target = match &mut self.target {
            Some(target) => target,
            none => none.insert(Target::connect(self.engine, self.migration)?),
        };
        target.send(&words)
    }

    /// Reads a reply for each key.
    fn receive(&mut self, sent: &mut [Sent<'_>]) -> Done {
        let Some(target) = &mut self.target else { return Ok(()) };
        for key in sent {
            if key.asked
                && let Err(text) = target.reply()?
            {
                self.refusal.get_or_insert(text);
            }
            match target.reply()? {
                Ok(()) => key.is_taken = true,
                Err(text) => drop(self.refusal.get_or_insert(text)),
            }
        }
        Ok(())
    }

    /// Deletes the keys that the other server has, all in one transaction. Returns the indexes of
    /// those that were changed or deleted since they were read.
    fn delete(&self, call: &mut Call<'_>, mut sent: Vec<Sent<'_>>) -> Result<Vec<usize>, Failure> {
        sent.retain(|key| key.is_taken && key.watch.is_some());
        if sent.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key<'_>> = sent.iter().map(|sent| self.keys[sent.key]).collect();
        let mut changed = Vec::new();
        self.transact(call, &keys, |call, txn| {
            changed.clear();
            let mut words: Vec<&[u8]> = vec![b"DEL"];
            for (sent, key) in sent.iter().zip(call.keys) {
                // Its shard is locked: no other client changes it from here on.
                if sent.is_changed.load(Relaxed) {
                    changed.push(sent.key);
                } else if txn.keys().delete(call.db(), key)? {
                    words.push(key.bytes());
                }
            }
            if words.len() > 1 {
                call.wrote_as(&words);
            }
            Ok(())
        })?;
        Ok(changed)
    }

    /// Sends changed keys once more; keys deleted here are deleted there.
    fn send_again(
        &mut self,
        call: &mut Call<'_>,
        changed: &[usize],
    ) -> Result<Vec<Sent<'t>>, Failure> {
        let mut sent = Vec::new();
        for &key in changed {
            let (value, mut again) = self.read(call, key)?;
            match (value, &mut self.target) {
                (Some(value), _) => self.send(key, &value, true)?,
                (None, Some(target)) => {
                    // A node that imports the slot refuses it otherwise.
                    again.asked = self.engine.cluster().is_on();
                    if again.asked {
                        target.send(&[b"ASKING"])?;
                    }
                    target.send(&[b"DEL", self.keys[key].bytes()])?;
                }
                (None, None) => continue,
            }
            again.is_taken = false;
            sent.push(again);
        }
        Ok(sent)
    }

    fn transact(
        &self,
        call: &mut Call<'_>,
        keys: &[Key<'_>],
        step: impl FnOnce(&mut Call<'_>, &mut Txn<'_>) -> Done,
    ) -> Done {
        let args = call.args;
        let mut inner = call.inner();
        (inner.args, inner.keys) = (args, keys);
        inner.now_ns = self.engine.clock().unix_ns();
        let done = self.engine.transact(&mut inner, Scope::Keys, step);
        let reply_after = inner.reply_after;
        call.reply_after = call.reply_after.max(reply_after);
        done
    }
}
