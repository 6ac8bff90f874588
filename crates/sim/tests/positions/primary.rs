//! A primary that keeps its own place: threads that commit, say so in the stream, and publish
//! messages, while one of them begins the place anew.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use keyspace::{Db, Expire, Keyspace, StreamPosition, Txn};
use replication::ring::{Beginning, Medium, Place, Recovered, Ring, recover_furthest};
use replication::{Cursor, Id, PING, Position, Stream};
use sim::undivided;

use super::replicas::{Data, Found, History};
use super::{NOW, db};

/// Bytes of each of the two rings.
pub(crate) const RING: u64 = replication::ring::LEAST_SIZE;
/// A ring has no bytes of a commit that has more.
const MOST: u64 = (RING - 4096) / 4 - 24;
/// Names of keys.
const KEYS: usize = 12;
const DATABASES: u32 = 3;

/// The media of a primary.
pub(crate) trait Media: Sync {
    /// Notes a moment. Returns its number.
    fn mark(&self) -> usize;
    /// Returns the medium of one of the two rings.
    fn ring(&self, number: usize) -> Box<dyn Medium>;
    /// Makes sure that all commits survive what the policy survives.
    fn settle(&self) -> Result<(), String>;
    /// Whether a commit survives as soon as it has ended.
    fn is_settled(&self) -> bool;
}

/// What a commit changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) keys: Vec<((u32, usize), bool)>,
    /// It is in no stream.
    pub(crate) is_lost: bool,
    /// The end of its bytes in the stream, if they are too many for a ring.
    pub(crate) bare: Option<u64>,
}

/// What was so from a mark on.
pub(crate) enum Meaning {
    /// A thread is about to commit.
    Begun(usize, Change),
    /// It has committed, up to this offset if that is in the stream.
    Ended(usize, Option<u64>),
    /// It has not.
    Refused(usize),
    /// So much of the present history may be sent.
    Shown(usize),
    /// A place is about to be kept in another history.
    Keeps(History),
    /// It is kept.
    Kept,
    /// Something was said that changes no data.
    Said,
}

/// The bytes that were shown of a history.
struct Log {
    cursor: Cursor,
    bytes: Arc<Mutex<Vec<u8>>>,
}

/// A primary.
pub(crate) struct Primary<'m> {
    pub(crate) ks: Arc<Keyspace>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) media: &'m dyn Media,
    pub(crate) marks: Mutex<Vec<(usize, Meaning)>>,
    pub(crate) data: Mutex<Data>,
    log: Mutex<Option<Log>>,
    /// The ring that is in use.
    ring: AtomicUsize,
    /// Whether a thread begins the place anew.
    keeps: AtomicBool,
    /// The last command whose commit has ended.
    last: Mutex<Option<String>>,
    /// Where what it holds has its number.
    tokens: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn words(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words.collect::<String>()).into_bytes()
}

fn saved(position: &Position) -> StreamPosition {
    let Position { id, end, db, second, .. } = *position;
    StreamPosition {
        id: id.to_bytes(),
        offset: end,
        db: db.and_then(|db| u8::try_from(db).ok()),
        second: second.map(|(id, until)| (id.to_bytes(), until)),
        is_replica: false,
    }
}

/// Returns the place that an opening has found, with what one of the rings says.
pub(crate) fn found(ks: &Keyspace, rings: [&[u8]; 2]) -> Option<Found> {
    let (position, own) = ks.position().take_place()?;
    let end = position.offset;
    let id = Id::from_random(position.id);
    let found = Found { id, begun: end, end, until: end, ..Found::default() };
    let Some(own) = own else { return Some(Found { is_whole: true, ..found }) };
    let place = Place { id, begun: own.begun, end, shards: &own.shards };
    let recovered = recover_furthest(rings, &place, u64::MAX);
    let found = Found { begun: own.begun, words: own.shards, ..found };
    Some(match recovered {
        Some((ring, Recovered { end, until, bytes })) => {
            Found { end, until, bytes, is_whole: true, ring: Some(ring), ..found }
        }
        None => found,
    })
}

/// Returns all keys.
pub(crate) fn read(ks: &Keyspace) -> Result<Data, String> {
    let txn = ks.begin_all(NOW);
    let all = (0..DATABASES).flat_map(|db| (0..KEYS).map(move |key| (db, key)));
    let is_there = |(of, key): &(u32, usize)| {
        let name = format!("key:{key}");
        txn.peek(db(*of as usize), &txn.key(name.as_bytes())).is_some()
    };
    let keys: Data = all.filter(is_there).collect();
    drop(txn);
    let checked = ks.check().map_err(|error| error.to_string())?;
    assert_eq!(checked.keys, keys.len() as u64);
    Ok(keys)
}

impl<'m> Primary<'m> {
    /// Begins with this data, where an opening has found its place.
    pub(crate) fn begin(
        ks: &Arc<Keyspace>,
        media: &'m dyn Media,
        (data, found): (Data, Option<&Found>),
        rng: &mut Rng,
    ) -> Primary<'m> {
        let mut id = || Id::from_random(std::array::from_fn(|_| rng.u8(..)));
        let stream = Arc::new(Stream::new(id(), 1 << 20));
        stream.switch_on();
        if found.is_some_and(|found| !found.is_whole) {
            ks.position().forget(NOW).expect("a commit");
        }
        if let Some(Found { id: of, end, until, bytes, .. }) = found.filter(|found| found.is_whole)
        {
            let saved = Position { id: *of, second: None, end: *end, kept: 0, db: None, epoch: 0 };
            stream.continue_as_primary(&saved, bytes, *until, id());
        }
        // The ring that was in use is not overwritten.
        let ring = found.and_then(|found| found.ring).unwrap_or_else(|| rng.usize(..2));
        Primary {
            ks: Arc::clone(ks),
            stream,
            media,
            marks: Mutex::default(),
            data: Mutex::new(data),
            log: Mutex::default(),
            ring: AtomicUsize::new(ring),
            keeps: AtomicBool::new(false),
            last: Mutex::default(),
            tokens: AtomicUsize::new(rng.usize(..1 << 40)),
        }
    }

    fn mark(&self, meaning: Meaning) {
        lock(&self.marks).push((self.media.mark(), meaning));
    }

    /// Lets a thread do something.
    pub(crate) fn step(&self, thread: usize, mut rng: Rng) -> Result<String, String> {
        let of = if rng.u8(..4) == 0 { rng.u32(..DATABASES) } else { 0 };
        match rng.u8(..40) {
            0 | 1 => return self.keep(&mut rng).map(|kept| format!("keep: {kept}")),
            2..=4 => undivided(|| {
                self.stream.append_free(PING);
                self.show();
            }),
            5..=7 => undivided(|| {
                if let Some(last) = &*lock(&self.last) {
                    self.stream.append_free(&words(&["PUBLISH", "ended", last]));
                }
                self.show();
            }),
            8..=10 => self.send()?,
            11 => return self.flush(thread, of, &mut rng),
            12 => return self.commit_nothing(thread, of, &mut rng),
            kind => return self.commit(thread, of, kind == 13, &mut rng),
        }
        Ok("say".into())
    }

    /// Shows replicas all of the stream that may be sent at once.
    fn show(&self) {
        match self.media.is_settled() {
            true => self.show_until(self.stream.end()),
            false => self.mark(Meaning::Said),
        }
    }

    fn show_until(&self, end: u64) {
        if let Some(Log { cursor, bytes }) = &mut *lock(&self.log) {
            let mut bytes = lock(bytes);
            // If its place is lost, nothing of the history is sent any more.
            while cursor.read(end, &mut bytes).is_ok_and(|read| read > 0) {}
            let len = bytes.len();
            drop(bytes);
            self.mark(Meaning::Shown(len));
        }
    }

    /// Settles what was shown before, and sends that.
    fn send(&self) -> Result<(), String> {
        let (end, epoch) = (self.stream.end(), self.stream.epoch());
        self.media.settle()?;
        if self.stream.epoch() == epoch {
            undivided(|| self.show_until(end));
        }
        Ok(())
    }

    fn token(&self, rng: &mut Rng) -> String {
        let number = self.tokens.fetch_add(1, Relaxed);
        let fill = [0, 5, 60, 700, 4000, 9000][rng.usize(..6).min(rng.usize(..6))];
        format!("{number}{}", ".".repeat(fill))
    }

    /// Sets and deletes some keys; if it `loses`, without saying so in the stream.
    fn commit(&self, thread: usize, of: u32, loses: bool, rng: &mut Rng) -> Result<String, String> {
        let count = 1 + rng.usize(..2) * rng.usize(..3);
        let keys: BTreeSet<usize> = (0..count).map(|_| rng.usize(..KEYS)).collect();
        let names: Vec<String> = keys.iter().map(|key| format!("key:{key}")).collect();
        let shards: Vec<usize> =
            names.iter().map(|name| self.ks.key(name.as_bytes()).shard()).collect();
        let mut txn = self.ks.begin(&shards, NOW);
        let (mut change, mut bytes) = (Change::default(), Vec::new());
        for (key, name) in keys.iter().zip(&names) {
            let is_there = lock(&self.data).contains(&(of, *key));
            change.keys.push(((of, *key), !is_there));
            let (token, key) = (self.token(rng), txn.key(name.as_bytes()));
            if is_there {
                txn.keys().delete(db(of as usize), &key).map_err(|error| error.to_string())?;
            } else {
                let set = txn.strings().set(db(of as usize), &key, b"value", Expire::Clear);
                set.map_err(|error| error.to_string())?;
            }
            bytes.extend(words(&[if is_there { "DEL" } else { "SET" }, name, &token]));
        }
        let refuses = rng.u8(..8) == 0;
        let text = format!("{:?}, loses: {loses}, refused: {refuses}", change.keys);
        let bytes = (!loses).then_some(&bytes[..]);
        self.end(&mut txn, thread, (of, bytes), change, refuses)?;
        Ok(text)
    }

    /// Deletes all keys of a database.
    fn flush(&self, thread: usize, of: u32, rng: &mut Rng) -> Result<String, String> {
        let mut txn = self.ks.begin_all(NOW);
        let keys: Vec<_> = lock(&self.data).iter().copied().filter(|(db, _)| *db == of).collect();
        for (_, key) in &keys {
            let name = format!("key:{key}");
            let key = txn.key(name.as_bytes());
            txn.keys().delete(db(of as usize), &key).map_err(|error| error.to_string())?;
        }
        let keys = keys.into_iter().map(|key| (key, false)).collect();
        let change = Change { keys, ..Change::default() };
        let bytes = words(&["FLUSHDB", &self.token(rng)]);
        self.end(&mut txn, thread, (of, Some(&bytes)), change, false)?;
        Ok(format!("flush {of}"))
    }

    /// Says something in the stream that changes no data here.
    fn commit_nothing(&self, thread: usize, of: u32, rng: &mut Rng) -> Result<String, String> {
        let mut txn = self.ks.begin_one(rng.usize(..self.ks.shards()), NOW);
        let bytes = words(&["DEL", "key:99", &self.token(rng)]);
        self.end(&mut txn, thread, (of, Some(&bytes)), Change::default(), false)?;
        Ok("nothing".into())
    }

    /// Commits what was staged, with what is said of it in the stream.
    fn end(
        &self,
        txn: &mut Txn<'_>,
        thread: usize,
        (of, bytes): (u32, Option<&[u8]>),
        mut change: Change,
        refuses: bool,
    ) -> Result<(), String> {
        let changed = txn.dirty().next();
        let home = changed.or_else(|| txn.locked().next()).ok_or("a shard")?;
        let reserved = undivided(|| {
            let (is_kept, start) = (self.ks.position().is_kept(), self.stream.appended());
            let reserved = bytes
                .filter(|_| is_kept)
                .and_then(|bytes| self.stream.reserve(home, of, of, bytes));
            change.is_lost = is_kept && reserved.is_none() && changed.is_some();
            let end = reserved.as_ref().map(|reserved| reserved.end());
            change.bare = end.filter(|end| end - start > MOST);
            self.mark(Meaning::Begun(thread, change.clone()));
            reserved
        });
        if refuses {
            reserved.into_iter().for_each(|reserved| undivided(|| reserved.make_void()));
            undivided(|| {
                self.mark(Meaning::Refused(thread));
                self.show();
            });
            return Ok(());
        }
        let selected = Db::new(of as usize).ok_or("a database")?;
        if let Some(reserved) = &reserved {
            match changed {
                Some(_) => txn.set_stream_position(reserved.end(), selected),
                None => txn.stage_stream_position(reserved.end(), selected),
            }
        }
        if changed.is_some() || reserved.is_some() {
            txn.commit().map_err(|error| error.to_string())?;
        }
        undivided(|| {
            let end = reserved.map(|reserved| reserved.publish());
            match (bytes, end) {
                (Some(bytes), None) => drop(self.stream.append(of, of, bytes)),
                (None, _) => drop(self.stream.note_skipped()),
                _ => {}
            }
            for (key, is_there) in &change.keys {
                match is_there {
                    true => lock(&self.data).insert(*key),
                    false => lock(&self.data).remove(key),
                };
            }
            let token = |bytes: &[u8]| {
                let text = String::from_utf8_lossy(bytes).into_owned();
                let last = text.trim_end().rsplit("\r\n").next().unwrap_or_default().to_owned();
                last.trim_end_matches('.').to_owned()
            };
            // A message may only name what is in the same history.
            *lock(&self.last) = bytes.filter(|_| end.is_some()).map(token);
            self.mark(Meaning::Ended(thread, end));
            self.show();
        });
        Ok(())
    }

    /// Keeps the place from here on, with another ring.
    fn keep(&self, rng: &mut Rng) -> Result<bool, String> {
        if self.keeps.swap(true, Relaxed) {
            return Ok(false);
        }
        let kept = self.keep_alone(rng);
        self.keeps.store(false, Relaxed);
        kept
    }

    fn keep_alone(&self, rng: &mut Rng) -> Result<bool, String> {
        let number = 1 - self.ring.load(Relaxed);
        let (kept, key) = ([0, 100, RING / 3][rng.usize(..3)], rng.u64(..));
        let mut is_named = true;
        let position = || {
            undivided(|| {
                is_named = false;
                if self.stream.has_pending() {
                    return None;
                }
                let before = std::cell::Cell::new(Vec::new());
                let make = |position: &Position, kept: &[u8]| {
                    before.set(kept.to_vec());
                    let Position { id, end: begun, .. } = *position;
                    let beginning = Beginning { id, begun, kept, boot: [0; 16], key };
                    Ring::begin(self.media.ring(number), RING, &beginning)
                };
                let position = self.stream.begin_ring(kept, make)?;
                let bytes = Arc::<Mutex<Vec<u8>>>::default();
                let (_, cursor) = self.stream.cut_received();
                *lock(&self.log) = Some(Log { cursor, bytes: Arc::clone(&bytes) });
                *lock(&self.last) = None;
                self.mark(Meaning::Keeps(History {
                    id: position.id,
                    begun: position.end,
                    data: lock(&self.data).clone(),
                    db: position.db,
                    before: Arc::new(before.take()),
                    log: bytes,
                    sent: 0,
                    ended: BTreeSet::new(),
                    bare: BTreeSet::new(),
                    has_ring: true,
                }));
                Some(saved(&position))
            })
        };
        let kept = self.ks.position().keep_own(position, NOW).map_err(|error| error.to_string())?;
        if !kept {
            if !is_named {
                self.stream.end_ring();
            }
            return Ok(false);
        }
        self.media.settle()?;
        self.ring.store(number, Relaxed);
        undivided(|| self.mark(Meaning::Kept));
        Ok(true)
    }

    /// Leaves the place, as a clean end does.
    pub(crate) fn leave(&self) -> Result<(), String> {
        let position = || {
            let position = self.stream.position();
            self.mark(Meaning::Keeps(History {
                id: position.id,
                begun: position.end,
                data: lock(&self.data).clone(),
                db: position.db,
                before: Arc::default(),
                log: Arc::default(),
                sent: 0,
                ended: BTreeSet::new(),
                bare: BTreeSet::new(),
                has_ring: false,
            }));
            Some(saved(&position))
        };
        self.ks.position().leave(position, NOW).map_err(|error| error.to_string())?;
        self.media.settle()?;
        self.mark(Meaning::Kept);
        Ok(())
    }
}
