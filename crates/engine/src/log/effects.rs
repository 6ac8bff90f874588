//! What goes into the command log: effects of commands, in the protocol's own form.
//!
//! A command says what it changed ([`Effects::push`]); the engine hands the collected effects of a
//! transaction to the log while the shards are still locked, so that the log's order is the order
//! of the changes. Several effects of one command, or of an EXEC, are wrapped in MULTI and EXEC;
//! the commands of a pipelined run share a transaction of the keyspace, but stand in the log one by
//! one, each in a [group](Effects::end_group) of its own: a crash between them leaves a prefix, of
//! which none was acknowledged. SELECT is put before an effect on another database than the one
//! before it; the log knows the database of its last record.

use keyspace::{Change, Db, Event, Key, Txn};
use smallvec::SmallVec;

use super::command_log::CommandLog;
use crate::notify::events::{EventClass, EventClasses, KeyEvent};
use crate::notify::receivers::Receivers;
use crate::scripts::libraries::Uncommitted;

/// Something that is sent to clients when a transaction is committed.
pub enum Delivery {
    /// A message, for those who listened when it was published.
    Message {
        /// Who gets it.
        receivers: Receivers,
        /// The message.
        text: Box<[u8]>,
    },
    /// Something that happened to a key, for those who are notified of it.
    KeyEvent(KeyEvent),
    /// A line for those who monitor.
    Monitored(Vec<u8>),
    /// Databases were emptied, after this many changes: told to clients that keep copies, where it
    /// is among the changes that they are told of.
    Flushed(usize),
    /// Bytes for the client itself that are no reply.
    Own(Vec<u8>),
    /// A change of the function libraries, which counts from now on.
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
    /// The events of keys that are published.
    events: EventClasses,
    /// Where the last group begins: what is wrapped in MULTI and EXEC if it is more than one
    /// command.
    group: Group,
    /// Changes of the transaction that were looked at for what is gone.
    seen: usize,
    /// Changes of the transaction that [`Effects::notify_at`] has seen.
    recorded: usize,
    /// What is sent to clients after the commit.
    deliveries: Vec<Delivery>,
    /// What the messages among them take, and those that were dropped since.
    message_bytes: usize,
    /// What the events among them take, and those that were dropped since.
    event_bytes: usize,
    /// What the lines among them take for those who monitor.
    line_bytes: usize,
    /// How many deliveries there were when lines became too many: none is kept after that.
    lines_end: Option<usize>,
}

/// The bytes, and the commands, before a group.
#[derive(Clone, Copy, Default)]
struct Group {
    len: usize,
    count: usize,
}

/// Bytes of messages that are kept for one transaction: twice the output of a subscriber that
/// exceeds the usual limit. Whoever publishes without end in a script must not fill the memory.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Bytes of events of keys that are kept for one transaction: a script without end must not fill
/// the memory by writing to one key.
const MAX_EVENT_BYTES: usize = 64 << 20;

/// Bytes of lines for those who monitor that are kept for one transaction: a script without end
/// must not fill the memory by what it calls. What is sent is limited as all output of a client.
const MAX_LINE_BYTES: usize = 64 << 20;

/// How a SELECT begins.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT";

impl Effects {
    /// Effects that reuse `buffer`; no command is kept unless `enabled`, no event but of the
    /// classes.
    pub(crate) fn new(mut buffer: Vec<u8>, enabled: bool, events: EventClasses) -> Effects {
        buffer.clear();
        Effects { bytes: buffer, enabled, events, ..Effects::default() }
    }

    /// Says that something happened to a key.
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

    /// Says that something was taken from a key, and that the key is gone if that was all.
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
    /// others; leaves out changes that [`Effects::notify_at`] has seen.
    #[inline]
    pub(crate) fn notify_of<'t>(&mut self, changes: impl Iterator<Item = Change<'t>>) {
        if self.events.is_any() {
            let seen = std::mem::take(&mut self.recorded);
            self.note_changes(0, changes.skip(seen));
        }
    }

    /// Adds the same events for one step of a transaction, before the step's own; `changes` are
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
        // What a command that commits in parts said before its last part has left already.
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

    /// Returns true if there is a log, and it pays to rewrite commands.
    pub fn enabled(&self) -> bool {
        self.enabled
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

    /// A place to go back to when a command fails.
    pub fn mark(&self) -> EffectsMark {
        EffectsMark {
            len: self.bytes.len(),
            count: self.count,
            last: self.last,
            seen: self.seen,
            recorded: self.recorded,
            deliveries: self.deliveries.len(),
        }
    }

    /// Undoes what was added since.
    pub fn truncate(&mut self, mark: EffectsMark) {
        self.bytes.truncate(mark.len);
        self.count = mark.count;
        self.last = mark.last;
        self.seen = self.seen.min(mark.seen);
        self.recorded = self.recorded.min(mark.recorded);
        if self.deliveries.len() > mark.deliveries {
            self.truncate_deliveries(mark.deliveries);
        }
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

    /// Undoes the commands that were added since, and not what is sent to clients.
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

    /// Adds a line for those who monitor; drops it if the transaction has too many of them.
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

    /// Returns true if lines were dropped for those who monitor, of which no more are to follow.
    pub(crate) fn has_dropped_lines(&self) -> bool {
        self.lines_end.is_some()
    }

    /// Returns true if events were dropped, and all that follow them.
    pub(crate) fn has_dropped_events(&self) -> bool {
        self.event_bytes > MAX_EVENT_BYTES
    }

    /// Adds something that is sent to clients when the transaction is committed.
    pub fn deliver(&mut self, delivery: Delivery) {
        self.deliveries.push(delivery);
    }

    /// Returns true if something is to be sent to clients.
    #[inline]
    pub(crate) fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Returns after how many changes each time databases were emptied.
    pub(crate) fn flushes(&self) -> SmallVec<[usize; 1]> {
        let changes = |delivery: &Delivery| match delivery {
            Delivery::Flushed(changes) => Some(*changes),
            _ => None,
        };
        self.deliveries.iter().filter_map(changes).collect()
    }

    /// Takes what is to be sent to clients, in order.
    pub(crate) fn take_deliveries(&mut self) -> Vec<Delivery> {
        (self.message_bytes, self.event_bytes, self.line_bytes) = (0, 0, 0);
        self.lines_end = None;
        std::mem::take(&mut self.deliveries)
    }

    /// Puts a DEL before everything else for each key that expired or was evicted, and an HDEL for
    /// each field that expired: of the changes that [`Effects::put_at`] has not seen.
    pub(crate) fn put_before<'t>(&mut self, changes: impl Iterator<Item = Change<'t>>) {
        let seen = std::mem::take(&mut self.seen);
        self.put(EffectsMark::default(), changes.skip(seen));
    }

    /// Returns how many changes of the transaction [`Effects::put_at`] has seen.
    #[inline]
    pub(crate) fn seen(&self) -> usize {
        self.seen
    }

    /// The same at a place: what a command of a transaction found expired goes where the keys have
    /// the names, and the databases the numbers, that they had for that command. `changes` are
    /// those that were not seen, of `len` in all.
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
        // Where parts were committed since the mark was made, all that is here comes after it.
        let is_stale = mark.len > self.bytes.len() || mark.count > self.count;
        let mark = if is_stale { EffectsMark::default() } else { mark };
        let tail = self.bytes.split_off(mark.len);
        let (count, last) = (self.count - mark.count, self.last);
        // The database that is selected where what is after begins.
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

    /// Ends a group: its commands are wrapped in MULTI and EXEC where they are more than one.
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

    /// Gives everything to the log.
    #[inline]
    pub(crate) fn append_to(&mut self, log: &dyn CommandLog) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        self.end_group();
        let end = log.append(self.first, self.last, &self.bytes);
        self.forget_commands();
        Some(end)
    }

    /// Forgets what was to go into the log.
    pub fn forget_commands(&mut self) {
        self.bytes.clear();
        (self.count, self.seen, self.group) = (0, 0, Group::default());
        self.recorded = 0;
    }

    /// Forgets what was to be sent to clients.
    pub fn forget_deliveries(&mut self) {
        self.take_deliveries();
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.forget_commands();
        self.forget_deliveries();
    }

    /// Gives the space back.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// Returns what a line takes that is kept for those who monitor.
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
    deliveries: usize,
}
