//! Everything that happened in an incarnation, in the order in which it took effect, and what may
//! be found from each moment of it on.
//!
//! An action is under way from its start to its acknowledgement. Its transactions take effect one
//! after the other. If there is a command log, the engine appends to it under the shards' locks:
//! that is the order, and the effects are fed to the reference. If there is none (as on persistent
//! memory), the requests that succeeded are fed to the reference themselves; there is one thread,
//! or each thread has its own keys, so that the order among threads does not matter.
//!
//! After a crash a transaction that took effect must be there. Of those under way, each thread's
//! next one may be there: whole.

use super::state::{self, State};
use commands::{Clock, CommandLog, Engine, EngineOptions, Peer, ReplyLog, Session, commands_of};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Content, Db, Keyspace};
use resp::{Limits, Next, Parser, Protocol, Writer};
use sim::{Incarnation, Marker, Promise, Promises};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// The time, as actions set it.
pub(crate) struct TestClock(pub(crate) AtomicU64);

impl TestClock {
    pub(crate) fn at(unix_ms: u64) -> Arc<TestClock> {
        Arc::new(TestClock(AtomicU64::new(unix_ms)))
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

thread_local! {
    /// How far this thread's time is ahead of the time of actions, in ns.
    static AHEAD: Cell<Option<u64>> = const { Cell::new(None) };
}

/// How far each look at a running clock advances it, in ns: a script that looks twice takes long.
const LOOK: u64 = 200_000_000;

impl TestClock {
    /// Makes time pass for this thread each time that it looks at the clock.
    pub(crate) fn run() {
        AHEAD.set(Some(0));
    }

    /// Returns true if the clock is running for this thread.
    pub(crate) fn is_running() -> bool {
        AHEAD.get().is_some()
    }

    /// Returns this thread to the time of actions.
    pub(crate) fn stop() {
        AHEAD.set(None);
    }
}

impl Clock for TestClock {
    fn unix_ns(&self) -> u64 {
        let ahead = AHEAD.get();
        AHEAD.set(ahead.map(|ahead| ahead + LOOK));
        self.now() * 1_000_000 + ahead.unwrap_or(0)
    }
}

pub(crate) type Words = Vec<Vec<u8>>;

/// The effects of a transaction.
pub(crate) enum Feed {
    /// These commands, from the log, the first on this database.
    Effects(Db, Vec<u8>),
    /// These requests of a connection.
    Requests(usize, Vec<Words>),
    /// These keys were deleted.
    Deleted(Vec<(Db, Vec<u8>)>),
}

enum Meaning {
    Begun(Vec<&'static str>),
    Effective(Feed),
    Acknowledged,
}

struct Entry {
    mark: usize,
    thread: usize,
    now: u64,
    meaning: Meaning,
}

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Sets the thread that acts from here on.
pub(crate) fn act_as(thread: usize) {
    THREAD.set(thread);
}

/// Everything that happened in an incarnation.
pub(crate) struct Journal {
    marker: Marker,
    clock: Arc<TestClock>,
    entries: Mutex<Vec<Entry>>,
    /// How many times noteworthy things happened.
    pub(crate) counted: Mutex<BTreeMap<&'static str, u64>>,
}

impl Journal {
    pub(crate) fn new(incarnation: &Incarnation<'_>, clock: Arc<TestClock>) -> Journal {
        let (entries, counted) = Default::default();
        Journal { marker: incarnation.marker(), clock, entries, counted }
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.counted.lock().expect("no panic").entry(what).or_default() += 1;
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().expect("no panic while it is held")
    }

    fn enter(&self, meaning: Meaning) {
        let mut entries = self.entries();
        let (mark, thread, now) = (self.marker.set(), THREAD.get(), self.clock.now());
        entries.push(Entry { mark, thread, now, meaning });
    }

    pub(crate) fn begun(&self, names: Vec<&'static str>) {
        self.enter(Meaning::Begun(names));
    }

    pub(crate) fn effective(&self, feed: Feed) {
        self.enter(Meaning::Effective(feed));
    }

    pub(crate) fn acknowledged(&self) {
        self.enter(Meaning::Acknowledged);
    }

    /// Returns how many transactions have taken effect.
    pub(crate) fn position(&self) -> usize {
        self.entries().iter().filter(|e| matches!(e.meaning, Meaning::Effective(_))).count()
    }

    /// Returns the states before and after each transaction, and who made each.
    pub(crate) fn states(
        &self,
        before: State,
        changed: &Mutex<BTreeMap<&'static str, u64>>,
    ) -> Result<Vec<State>, String> {
        let mut reference = Reference::holding(&before)?;
        let mut names: BTreeMap<usize, &[&'static str]> = BTreeMap::new();
        // The reference has nothing that has expired: no transaction may seem to delete it.
        let mut states = vec![before.without_expired()];
        let entries = self.entries();
        for entry in entries.iter() {
            match &entry.meaning {
                Meaning::Begun(doing) => drop(names.insert(entry.thread, doing)),
                Meaning::Acknowledged => drop(names.remove(&entry.thread)),
                Meaning::Effective(feed) => {
                    let after = reference.feed(feed, entry.now)?;
                    if !after.agrees(&states[states.len() - 1], entry.now) {
                        let mut changed = changed.lock().expect("no panic");
                        for name in names.get(&entry.thread).into_iter().copied().flatten() {
                            *changed.entry(name).or_default() += 1;
                        }
                    }
                    states.push(after);
                }
            }
        }
        Ok(states)
    }

    /// Returns what may be found from each mark on.
    pub(crate) fn promises(&self, states: &[State]) -> Promises<State> {
        let entries = self.entries();
        let mut doing: BTreeMap<usize, &[&'static str]> = BTreeMap::new();
        let mut effective = 0;
        let mut promises = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            match &entry.meaning {
                Meaning::Begun(names) => drop(doing.insert(entry.thread, names)),
                Meaning::Acknowledged => drop(doing.remove(&entry.thread)),
                Meaning::Effective(_) => effective += 1,
            }
            let base = State { now: entry.now, ..states[effective].clone() };
            let mut allowed = vec![base];
            for thread in doing.keys() {
                let Some(next) = next_of(&entries[at + 1..], *thread) else { continue };
                let (before, after) = (&states[effective + next], &states[effective + next + 1]);
                for n in 0..allowed.len() {
                    allowed.push(allowed[n].changed_by(before, after));
                }
            }
            let mut names: Vec<_> = doing.values().copied().flatten().copied().collect();
            if doing.len() > 1 {
                names.push("several threads");
            }
            promises.push((entry.mark, Promise { allowed, doing: names }));
        }
        promises
    }
}

/// Returns how many transactions take effect before a thread's next one, if that comes before its
/// acknowledgement.
fn next_of(entries: &[Entry], thread: usize) -> Option<usize> {
    let mut before = 0;
    for entry in entries {
        match entry.meaning {
            Meaning::Effective(_) if entry.thread == thread => return Some(before),
            Meaning::Effective(_) => before += 1,
            Meaning::Acknowledged if entry.thread == thread => return None,
            _ => {}
        }
    }
    None
}

impl ReplyLog for Journal {
    fn end(&self) -> u64 {
        1
    }

    fn is_synchronous(&self) -> bool {
        false
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, _: u64) -> bool {
        true
    }

    fn sync_to(&self, _: u64) -> bool {
        true
    }
}

impl CommandLog for Journal {
    fn append(&self, first: Db, _last: Db, bytes: &[u8]) -> u64 {
        self.effective(Feed::Effects(first, bytes.to_vec()));
        1
    }
}

/// Creates an engine in DRAM.
pub(crate) fn volatile_engine(clock: Arc<TestClock>) -> Result<Engine, String> {
    let geometry = Geometry { shards: 1, ring_parts: 3, ring_part: 512, zone_spans: 64 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(64 << 20, &options).map_err(|error| error.to_string())?;
    let keyspace = Arc::new(Keyspace::new(heap, clock.now()));
    Ok(Engine::new(EngineOptions { clock, ..EngineOptions::new(keyspace) }))
}

/// The reference: an engine in DRAM, driven by the same commands, without the code below the
/// structures.
struct Reference {
    engine: Engine,
    clock: Arc<TestClock>,
    sessions: Vec<Session>,
    replay: Session,
    writer: Writer,
}

impl Reference {
    /// Creates a reference that holds this state.
    fn holding(state: &State) -> Result<Reference, String> {
        let clock = TestClock::at(state.now);
        let engine = volatile_engine(clock.clone())?;
        let replay = engine.connect_replay();
        let writer = Writer::new(Protocol::Resp2);
        let mut reference = Reference { engine, clock, sessions: Vec::new(), replay, writer };
        for ((db, key), (value, expiry)) in state.live(state.now) {
            if let (state::LIBRARIES, Content::String(code)) = (*db, value) {
                reference.run(None, &[b"FUNCTION", b"LOAD", code])?;
                continue;
            }
            reference.replay.db = Db::new(*db).ok_or("a database")?;
            commands_of(key, value, |words| reference.run(None, words))?;
            if *expiry != 0 {
                let at = expiry.to_string();
                reference.run(None, &[b"PEXPIREAT", key, at.as_bytes()])?;
            }
        }
        reference.replay.db = Db::default();
        Ok(reference)
    }

    fn feed(&mut self, feed: &Feed, now: u64) -> Result<State, String> {
        self.clock.0.store(now, Relaxed);
        match feed {
            Feed::Effects(first, bytes) => {
                self.replay.db = *first;
                let mut parser = Parser::default();
                let limits = Limits::default();
                while let Ok(Next::Command) = parser.next(bytes, &limits) {}
                for command in parser.commands(bytes) {
                    let words: Vec<&[u8]> = command.arguments().collect();
                    self.run(None, &words)?;
                }
            }
            Feed::Requests(connection, requests) => {
                for words in requests {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    self.run(Some(*connection), &words)?;
                }
            }
            Feed::Deleted(keys) => {
                for (db, key) in keys {
                    self.replay.db = *db;
                    self.run(None, &[b"DEL", key])?;
                }
            }
        }
        Ok(state::read(self.engine.keyspace(), now))
    }

    fn run(&mut self, connection: Option<usize>, words: &[&[u8]]) -> Result<(), String> {
        let session = match connection {
            None => &mut self.replay,
            Some(connection) => {
                while self.sessions.len() <= connection {
                    self.sessions.push(self.engine.connect(Peer::default(), 0));
                }
                &mut self.sessions[connection]
            }
        };
        let _ = self.engine.execute(session, words, &mut self.writer);
        let reply = self.writer.take();
        if reply.first() == Some(&b'-') {
            let words: Vec<_> = words.iter().map(|word| state::brief(word)).collect();
            let reply = reply.escape_ascii();
            return Err(format!("the reference answers {reply} to {}", words.join(" ")));
        }
        Ok(())
    }
}
