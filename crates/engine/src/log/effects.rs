//! Effects of commands on their way to the command log, in the protocol's encoding.
//!
//! A command reports its changes ([`Effects::push`]); the engine hands the collected effects of a
//! transaction to the log while the shards are still locked, so that the log's order is the order
//! of the changes. Several effects of one command, or of an EXEC, are wrapped in MULTI and EXEC;
//! the commands of a pipelined run share a transaction of the keyspace, but are logged one by one,
//! each in a [group](Effects::end_group) of its own: a crash between them leaves a prefix, none of
//! which was acknowledged. A SELECT precedes an effect on another database than the previous one's;
//! the log knows the database of its last record.

use ::cluster::message::Published;
use keyspace::{Change, Db, Event, Key, Txn};
use smallvec::SmallVec;

use crate::notify::events::{EventClass, EventClasses, KeyEvent};
use crate::notify::receivers::Receivers;
use crate::scripts::libraries::Uncommitted;

/// Something that is sent to clients when a transaction is committed.
pub enum Delivery {
    /// A message, for the clients that were subscribed when it was published.
    Message {
        /// Its receivers.
        receivers: Receivers,
        /// The message.
        text: Box<[u8]>,
    },
    /// An event of a key, for the subscribers of keyspace events.
    KeyEvent(KeyEvent),
    /// A line for clients in MONITOR mode.
    Monitored(Vec<u8>),
    /// Databases were emptied, after this many changes: clients that keep copies are notified of it
    /// in its place among the changes.
    Flushed(usize),
    /// Bytes for the client itself that are not a reply.
    Own(Vec<u8>),
    /// A command that changes no data, for the stream for replicas alone.
    Streamed(Vec<u8>),
    /// A message for the other nodes of the cluster.
    ToNodes(Published),
    /// A change of the function libraries, which takes effect now.
    Libraries(Uncommitted),
}

/// Effects of one transaction, encoded.
#[derive(Default)]
pub struct Effects {
    bytes: Vec<u8>,
    count: usize,
    first: Db,
    last: Db,
    enabled: bool,
    /// Whether the commands are meant for the stream for replicas, too.
    is_streamed: bool,
    /// The classes of events that are published.
    events: EventClasses,
    /// The start of the last group, which is wrapped in MULTI and EXEC if it has more than one
    /// command.
    group: Group,
    /// Changes of the transaction that were searched for expired and evicted keys.
    seen: usize,
    /// Changes of the transaction that [`Effects::notify_at`] has seen.
    recorded: usize,
    /// How often all commands were taken away: by the commit of a part, or since all was undone.
    parts: usize,
    /// Messages for clients after the commit.
    deliveries: Vec<Delivery>,
    /// Bytes of the messages among them, and of those that were dropped since.
    message_bytes: usize,
    /// Bytes of the events among them, and of those that were dropped since.
    event_bytes: usize,
    /// Bytes of the lines for MONITOR among them.
    line_bytes: usize,
    /// The number of deliveries when lines became too many: no line is kept after that.
    lines_end: Option<usize>,
}

/// The number of bytes, and of commands, before a group.
#[derive(Clone, Copy, Default)]
struct Group {
    len: usize,
    count: usize,
}

/// Bytes of messages that are kept for one transaction: twice the output of a subscriber that
/// exceeds the usual limit. A script that publishes endlessly must not fill the memory.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Bytes of keyspace events that are kept for one transaction: an endless script must not fill the
/// memory by writing to one key.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Bytes of lines for MONITOR that are kept for one transaction: an endless script must not fill
/// the memory by its calls. Sent lines are limited like all output of a client.
const MAX_LINE_BYTES: usize = 64 << 20;

/// How a SELECT starts.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT";

impl Effects {
    /// Returns effects that reuse `buffer`: they keep commands only if `enabled`, and events only
    /// of the given classes.
    pub(crate) fn new(
        mut buffer: Vec<u8>,
        enabled: bool,
        is_streamed: bool,
        events: EventClasses,
    ) -> Effects {
        buffer.clear();
        Effects { bytes: buffer, enabled, is_streamed, events, ..Effects::default() }
    }

    /// Notes an event of a key.
    #[inline]
    pub fn notify(&mut self, class: EventClass, db: Db, name: &'static str, key: &[u8]) {
        if self.events.has(class) {
            self.note(db, name, key);
        }
    }

    #[cold]
    fn note(&mut self, db: Db, name: &'static str, key: &[u8]) {
        self.event_bytes += size_of::<Delivery>() + key.len();
        if !self.has_dropped_events() {
            self.deliveries.push(Delivery::KeyEvent(KeyEvent { db, name, key: key.into() }));
        }
    }

    /// Notes that something was taken from a key, and that the key is gone if nothing is left.
    #[inline]
    pub(crate) fn notify_taken(
        &mut self,
        class: EventClass,
        txn: &Txn<'_>,
        db: Db,
        name: &'static str,
        key: &Key<'_>,
    ) {
        if self.events.is_any() {
            self.notify(class, db, name, key.bytes());
            if txn.peek(db, key).is_none() {
                self.notify(EventClass::Generic, db, "del", key.bytes());
            }
        }
    }

    /// Adds events for keys that expired, were evicted, are new or were not found, before all
    /// others. Leaves out changes that [`Effects::notify_at`] has seen.
    #[inline]
    pub(crate) fn notify_of<'t>(&mut self, changes: impl Iterator<Item = Change<'t>>) {
        if self.events.is_any() {
            let seen = std::mem::take(&mut self.recorded);
            self.note_changes(0, changes.skip(seen));
        }
    }

    /// Adds the same events for one step of a transaction, before the step's own. `changes` are
    /// those after [`Effects::recorded`], of `len` in all.
    pub(crate) fn notify_at<'t>(
        &mut self,
        mark: EffectsMark,
        changes: impl Iterator<Item = Change<'t>>,
        len: usize,
    ) {
        self.recorded = len;
        self.note_changes(mark.deliveries, changes);
    }

    /// Returns how many changes of the transaction [`Effects::notify_at`] has seen, if events are
    /// published.
    #[inline]
    pub(crate) fn recorded(&self) -> Option<usize> {
        self.events.is_any().then_some(self.recorded)
    }

    #[cold]
    fn note_changes<'t>(&mut self, at: usize, changes: impl Iterator<Item = Change<'t>>) {
        // Earlier parts of a command that commits in parts have delivered theirs already.
        let later = self.deliveries.split_off(at.min(self.deliveries.len()));
        let mut last_hash = None;
        for Change { db, key, event, .. } in changes {
            match event {
                Event::Expired => self.notify(EventClass::Expired, db, "expired", key),
                Event::Evicted => self.notify(EventClass::Evicted, db, "evicted", key),
                Event::Created => self.notify(EventClass::New, db, "new", key),
                Event::Missed => self.notify(EventClass::Miss, db, "keymiss", key),
                // Once for a hash, however many of its fields expired together.
                Event::FieldExpired if last_hash != Some((db, key)) => {
                    last_hash = Some((db, key));
                    self.notify(EventClass::Hash, db, "hexpired", key);
                }
                _ => {}
            }
        }
        self.deliveries.extend(later);
    }

    /// Returns true if commands are collected, for the log or for replicas, so that rewriting them
    /// is worthwhile.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Returns true if there are commands that were collected for the stream for replicas.
    pub(crate) fn are_streamed(&self) -> bool {
        self.is_streamed && self.count > 0
    }

    /// Adds a command that was executed on `db`.
    pub fn push(&mut self, db: Db, args: &[&[u8]]) {
        if !self.enabled {
            return;
        }
        self.select(db);
        self.count += 1;
        aof::encode(&mut self.bytes, args);
    }

    fn select(&mut self, db: Db) {
        if self.count == 0 {
            self.first = db;
        } else if self.last != db {
            aof::encode_select(&mut self.bytes, db.number() as u32);
        }
        self.last = db;
    }

    /// Returns a mark to go back to when a command fails.
    pub fn mark(&self) -> EffectsMark {
        EffectsMark {
            len: self.bytes.len(),
            count: self.count,
            last: self.last,
            seen: self.seen,
            recorded: self.recorded,
            parts: self.parts,
            group: self.group,
            deliveries: self.deliveries.len(),
        }
    }

    /// Undoes what was added since. If parts were committed since, only what was added after the
    /// last of them can be undone.
    pub fn truncate(&mut self, mark: EffectsMark) {
        let mark = match self.is_stale(&mark) {
            true => EffectsMark { deliveries: mark.deliveries, ..EffectsMark::default() },
            false => mark,
        };
        self.bytes.truncate(mark.len);
        self.count = mark.count;
        self.last = mark.last;
        self.group = mark.group;
        self.seen = self.seen.min(mark.seen);
        self.recorded = self.recorded.min(mark.recorded);
        if self.deliveries.len() > mark.deliveries {
            self.truncate_deliveries(mark.deliveries);
        }
    }

    /// Returns true if parts were committed since the mark was made.
    fn is_stale(&self, mark: &EffectsMark) -> bool {
        mark.parts != self.parts
    }

    #[cold]
    fn truncate_deliveries(&mut self, len: usize) {
        for dropped in self.deliveries.drain(len..) {
            if let Delivery::Monitored(line) = dropped {
                self.line_bytes -= bytes_of_line(&line);
            }
        }
        self.lines_end = self.lines_end.filter(|end| *end <= len);
    }

    /// Undoes the commands that were added since, but not the messages to clients.
    pub fn truncate_commands(&mut self, mark: EffectsMark) {
        let (recorded, deliveries) = (self.recorded, self.deliveries.len());
        self.truncate(EffectsMark { recorded, deliveries, ..mark });
    }

    /// Counts a message of this many bytes to this many clients; returns false if the transaction
    /// has too many of them.
    pub fn count_message(&mut self, bytes: usize, receivers: usize) -> bool {
        self.message_bytes += size_of::<Delivery>() + bytes + receivers * size_of::<usize>();
        self.message_bytes <= MAX_MESSAGE_BYTES
    }

    /// Adds a line for clients in MONITOR mode; drops it if the transaction has too many of them.
    pub(crate) fn deliver_line(&mut self, mut line: Vec<u8>) {
        line.shrink_to_fit();
        let bytes = self.line_bytes + bytes_of_line(&line);
        if self.lines_end.is_some() || bytes > MAX_LINE_BYTES {
            self.lines_end.get_or_insert(self.deliveries.len());
            return;
        }
        self.line_bytes = bytes;
        self.deliver(Delivery::Monitored(line));
    }

    /// Returns true if lines for MONITOR were dropped, so that no more may follow.
    pub(crate) fn has_dropped_lines(&self) -> bool {
        self.lines_end.is_some()
    }

    /// Returns true if events were dropped, with all that followed them.
    pub(crate) fn has_dropped_events(&self) -> bool {
        self.event_bytes > MAX_EVENT_BYTES
    }

    /// Adds something that is sent to clients when the transaction is committed.
    pub fn deliver(&mut self, delivery: Delivery) {
        self.deliveries.push(delivery);
    }

    /// Returns true if there is something to send to clients.
    #[inline]
    pub(crate) fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Returns, for each time that databases were emptied, the number of changes before it.
    pub(crate) fn flushes(&self) -> SmallVec<[usize; 1]> {
        let changes = |delivery: &Delivery| match delivery {
            Delivery::Flushed(changes) => Some(*changes),
            _ => None,
        };
        self.deliveries.iter().filter_map(changes).collect()
    }

    /// Takes the messages to clients, in order.
    pub(crate) fn take_deliveries(&mut self) -> Vec<Delivery> {
        (self.message_bytes, self.event_bytes, self.line_bytes) = (0, 0, 0);
        self.lines_end = None;
        std::mem::take(&mut self.deliveries)
    }

    /// Puts a DEL before everything else for each key that expired or was evicted, and an HDEL for
    /// each field that expired, without the changes that [`Effects::put_at`] has seen.
    pub(crate) fn put_before<'t>(&mut self, changes: impl Iterator<Item = Change<'t>>) {
        let seen = std::mem::take(&mut self.seen);
        self.put(EffectsMark::default(), changes.skip(seen));
    }

    /// Returns how many changes of the transaction [`Effects::put_at`] has seen.
    #[inline]
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// Does the same at a mark: keys that a command of a transaction found expired are deleted in
    /// the log where keys have the names, and databases the numbers, that they had for that
    /// command. `changes` are those that were not seen, of `len` in all.
    pub(crate) fn put_at<'t>(
        &mut self,
        mark: EffectsMark,
        changes: impl Iterator<Item = Change<'t>>,
        len: usize,
    ) {
        self.seen = len;
        self.put(mark, changes);
    }

    fn put<'t>(&mut self, mark: EffectsMark, changes: impl Iterator<Item = Change<'t>>) {
        if !self.enabled {
            return;
        }
        let mut gone = changes
            .filter(|change| {
                matches!(change.event, Event::Expired | Event::FieldExpired | Event::Evicted)
            })
            .peekable();
        if gone.peek().is_none() {
            return;
        }
        debug_assert!(mark.len >= self.group.len, "a step puts what it found gone before it ends");
        // Everything here comes after a stale mark.
        let mark = if self.is_stale(&mark) { EffectsMark::default() } else { mark };
        let tail = self.bytes.split_off(mark.len);
        let (count, last) = (self.count - mark.count, self.last);
        // The database that is selected where the rest begins.
        let begins = if mark.count == 0 { self.first } else { mark.last };
        (self.count, self.last) = (mark.count, mark.last);
        for Change { db, key, field, event } in gone {
            match event {
                Event::FieldExpired => self.push(db, &[b"HDEL", key, field]),
                _ => self.push(db, &[b"DEL", key]),
            }
        }
        if count > 0 {
            if !tail.starts_with(SELECT) {
                self.select(begins);
            }
            self.bytes.extend_from_slice(&tail);
            (self.count, self.last) = (self.count + count, last);
        }
    }

    /// Ends a group: its commands are wrapped in MULTI and EXEC if there is more than one.
    #[inline]
    pub(crate) fn end_group(&mut self) {
        if !self.enabled {
            return;
        }
        if self.count > self.group.count + 1 {
            let at = self.group.len;
            self.bytes.splice(at..at, aof::MULTI.iter().copied());
            self.bytes.extend_from_slice(aof::EXEC);
        }
        self.group = Group { len: self.bytes.len(), count: self.count };
    }

    /// Returns all commands, if there are any: the database that the first needs selected, the one
    /// that the last leaves selected, and their bytes.
    #[inline]
    pub(crate) fn commands(&mut self) -> Option<(Db, Db, &[u8])> {
        if self.count == 0 {
            return None;
        }
        self.end_group();
        Some((self.first, self.last, &self.bytes))
    }

    /// Drops the commands for the log.
    pub fn forget_commands(&mut self) {
        self.bytes.clear();
        (self.count, self.seen, self.group) = (0, 0, Group::default());
        self.recorded = 0;
        self.parts += 1;
    }

    /// Drops the messages to clients.
    pub fn forget_deliveries(&mut self) {
        self.take_deliveries();
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.forget_commands();
        self.forget_deliveries();
    }

    /// Returns the buffer.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// Returns the bytes that a line for MONITOR takes.
fn bytes_of_line(line: &Vec<u8>) -> usize {
    size_of::<Delivery>() + line.capacity()
}

/// See [`Effects::mark`].
#[derive(Clone, Copy, Default)]
pub struct EffectsMark {
    len: usize,
    count: usize,
    last: Db,
    seen: usize,
    recorded: usize,
    parts: usize,
    group: Group,
    deliveries: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(effects: &mut Effects, key: &[u8]) {
        effects.push(Db::default(), &[b"SET", key, b"value"]);
    }

    #[test]
    fn a_failure_after_the_commit_of_a_part_undoes_what_came_after_it() {
        for added in 0..5 {
            let mut effects = Effects::new(Vec::new(), true, false, EventClasses::default());
            (0..2).for_each(|_| push(&mut effects, b"before"));
            let mark = effects.mark();
            push(&mut effects, b"part");
            assert!(effects.commands().is_some());
            effects.forget_commands();
            (0..added).for_each(|_| push(&mut effects, b"k"));
            effects.truncate(mark);
            assert!(effects.commands().is_none(), "{added} commands after the part");
        }
    }
}
