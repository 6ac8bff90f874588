//! Threads on one store under the deterministic scheduler: some change it, some iterate over it,
//! some take snapshots and read them. What they saw is compared afterwards with what may have
//! existed ([`super::model`]).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heap::MOST_SNAPSHOTS;
use perdura::prelude::*;
use perdura::{
    Error, Hashes, KeyIter, Operations, Perdura, RangeIter, Sets, Snapshot, Strings, Table, Tables,
};
use sim::{run_scheduled, yield_now};

use super::model::{
    Change, EACH, Element, GROUP, Kind, Logged, Shown, State, Window, group, possible,
};

const HASH: &str = "hash";
const SET: &str = "set";
const TABLE: &str = "table";

/// Keys of two parts: the group of a row, and its id.
type Rows<'s, S> = Table<'s, (u8, u16), Vec<u8>, S>;

fn rows<S: Tables>(on: &S) -> Rows<'_, S> {
    on.table(TABLE)
}

fn row_key(id: usize) -> (u8, u16) {
    ((id / GROUP) as u8, id as u16)
}

fn name(kind: Kind, id: usize) -> String {
    format!("{kind:?}:{id}")
}

/// Returns the bytes of a version; some versions end the listpack encoding.
fn value(version: u16) -> Vec<u8> {
    let mut value = version.to_be_bytes().to_vec();
    value.resize(2 + usize::from(version % 80), version as u8);
    value
}

/// Returns the version of a value; `None` if the value is not intact.
fn version(bytes: &[u8]) -> Option<u16> {
    let version = u16::from_be_bytes(*bytes.first_chunk()?);
    (version != 0 && value(version) == bytes).then_some(version)
}

fn id(kind: Kind, name: &[u8]) -> Option<usize> {
    let name = std::str::from_utf8(name).ok()?;
    name.strip_prefix(&format!("{kind:?}:"))?.parse().ok()
}

fn write(on: &impl Operations, Element { kind, id }: Element, version: u16) -> Result<(), Error> {
    let name = name(kind, id);
    match (kind, version) {
        (Kind::Row, 0) => rows(on).remove(row_key(id)).map(drop),
        (Kind::Row, _) => rows(on).insert(row_key(id), &value(version)).map(drop),
        (Kind::Field, 0) => on.hash_delete(HASH, name).map(drop),
        (Kind::Field, _) => on.hash_set(HASH, name, value(version)).map(drop),
        (Kind::Member, 0) => on.set_remove(SET, name).map(drop),
        (Kind::Member, _) => on.set_add(SET, name).map(drop),
        (Kind::Key, 0) => on.delete(name).map(drop),
        (Kind::Key, _) => on.set(name, value(version)),
    }
}

fn make(store: &Perdura, change: &Change) -> Result<(), Error> {
    match change {
        Change::Write(writes) => match writes.as_slice() {
            [(element, version)] => write(store, *element, *version),
            writes => store.transact(|tx| {
                writes.iter().try_for_each(|(element, version)| write(tx, *element, *version))
            }),
        },
        Change::RemoveGroup(of) => rows(store).remove_prefix((*of as u8,)).map(drop),
        Change::Update(id) => {
            let next = |old: Option<&Vec<u8>>| {
                let old = old.map(|old| version(old).expect("a whole value"));
                old.map(|version| value(version + 1))
            };
            rows(store).fetch_update(row_key(*id), next).map(drop)
        }
        Change::Clear => store.clear_all().map(drop),
    }
}

/// How an iterator of rows is used.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Front,
    Back,
    Both,
}

/// Takes all rows out of an iterator, in the order of the table.
fn take_rows<S>(
    mut rows: RangeIter<'_, ((u8, u16), Vec<u8>), S>,
    ends: Ends,
    mut between: impl FnMut(usize),
) -> Result<Vec<(usize, u16)>, Error> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for turn in 0.. {
        let from_back = ends == Ends::Back || ends == Ends::Both && turn % 5 > 2;
        let next = if from_back { rows.next_back() } else { rows.next() };
        let Some(row) = next else { break };
        let ((of, id), bytes) = row?;
        assert_eq!(usize::from(of), usize::from(id) / GROUP, "the key of a row");
        let item = (usize::from(id), version(&bytes).expect("a whole value"));
        if from_back {
            back.push(item)
        } else {
            front.push(item)
        }
        between(item.0);
    }
    back.reverse();
    front.append(&mut back);
    Ok(front)
}

/// Takes all elements of an unordered kind out of an iterator.
fn take_unordered<S: Hashes + Sets + Strings>(
    on: &S,
    keys: Option<KeyIter<'_>>,
    kind: Kind,
    mut between: impl FnMut(usize),
) -> Result<Vec<(usize, u16)>, Error> {
    let mut items = Vec::new();
    let mut push = |name: &[u8], version: u16| {
        let id = id(kind, name).expect("a name");
        items.push((id, version));
        between(id);
    };
    match kind {
        Kind::Field => {
            for entry in on.hash_iter(HASH) {
                let (field, bytes) = entry?;
                push(&field, version(&bytes).expect("a whole value"));
            }
        }
        Kind::Member => {
            for member in on.set_iter(SET) {
                push(&member?, 1);
            }
        }
        _ => {
            for key in keys.into_iter().flat_map(|keys| keys.prefix("Key:")) {
                let key = key?;
                // It may be gone by now; nothing is known about its value then.
                let bytes = on.get(&key)?;
                let version = bytes.map(|bytes| version(&bytes).expect("a whole value"));
                push(&key, version.unwrap_or(0));
            }
        }
    }
    Ok(items)
}

/// Reads all of a store that nobody changes, or of a snapshot: each element must come once.
pub(super) fn read<S: Hashes + Sets + Strings + Tables>(
    on: &S,
    keys: KeyIter<'_>,
    mut between: impl FnMut(usize),
) -> Result<State, Error> {
    let mut state = State::empty();
    let mut put = |kind, items: Vec<(usize, u16)>| {
        for (id, version) in items {
            let element = Element { kind, id };
            assert_eq!(state.get(element), 0, "{element:?} is shown twice");
            assert_ne!(version, 0, "{element:?} is shown and has no value");
            state.put(element, version);
        }
    };
    put(Kind::Row, take_rows(rows(on).iter(), Ends::Both, &mut between)?);
    put(Kind::Key, take_unordered(on, Some(keys), Kind::Key, &mut between)?);
    put(Kind::Field, take_unordered(on, None, Kind::Field, &mut between)?);
    put(Kind::Member, take_unordered(on, None, Kind::Member, &mut between)?);
    Ok(state)
}

/// A snapshot that several threads read.
struct Taken<'s> {
    snapshot: Snapshot<&'s Perdura>,
    /// Greater than that of each earlier one.
    number: usize,
    window: Window,
    /// What the first reader found; later readers must find the same.
    found: Mutex<Option<State>>,
    has_expired: AtomicBool,
}

/// How many times the tested situations happened.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) changes: AtomicUsize,
    /// Changes that found no space.
    pub(super) refused: AtomicUsize,
    pub(super) walks: AtomicUsize,
    /// Walks during which something changed.
    pub(super) concurrent: AtomicUsize,
    /// Elements that were there all through such a walk.
    pub(super) stayed: AtomicUsize,
    /// The number of snapshot reads, including repeated ones.
    pub(super) read: AtomicUsize,
    /// Snapshots that had expired when they were to be read.
    pub(super) expired: AtomicUsize,
    /// Snapshots that were not taken, since there were already the maximum number.
    pub(super) too_many: AtomicUsize,
}

impl Seen {
    fn count(count: &AtomicUsize) {
        count.fetch_add(1, Relaxed);
    }
}

/// How many threads of each kind there are, and what they do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cast {
    pub(super) changes: usize,
    pub(super) walks: usize,
    /// Maximum number of snapshots that are open at once.
    pub(super) snapshots: usize,
    /// How many times one is taken or dropped, and how many times each reader reads one.
    pub(super) turns: usize,
    /// Maximum number of times that a writer yields before a change.
    pub(super) pauses: usize,
    /// Whether everything is sometimes deleted.
    pub(super) clears: bool,
}

/// Items that an iterator reads at once.
const BATCH: usize = 64;

const WRITERS: usize = 3;
const WALKERS: usize = 2;
const READERS: usize = 2;

/// A store and the shared state of its threads.
pub(super) struct Scene<'s> {
    pub(super) store: &'s Perdura,
    pub(super) cast: Cast,
    pub(super) seed: u64,
    /// Sets a mark between events; returns its number.
    pub(super) mark: &'s (dyn Fn() -> usize + Sync),
    /// Returns whether a change is made: changes that a failure does not need are left out.
    pub(super) has: &'s (dyn Fn(usize) -> bool + Sync),
    log: Mutex<Vec<(usize, Logged)>>,
    shown: Mutex<Vec<Shown>>,
    open: Mutex<Vec<Arc<Taken<'s>>>>,
    found: Mutex<Vec<(Window, State)>>,
    /// What an iterator showed last.
    last: AtomicUsize,
    pub(super) seen: Seen,
}

/// The events with their marks, and the possible states: at the start, and after each event.
pub(super) struct Happened {
    pub(super) log: Vec<(usize, Logged)>,
    pub(super) possible: Vec<Vec<Arc<State>>>,
    pub(super) seen: Seen,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'s> Scene<'s> {
    pub(super) fn new(
        store: &'s Perdura,
        cast: Cast,
        seed: u64,
        mark: &'s (dyn Fn() -> usize + Sync),
        has: &'s (dyn Fn(usize) -> bool + Sync),
    ) -> Scene<'s> {
        Scene {
            store,
            cast,
            seed,
            mark,
            has,
            log: Mutex::default(),
            shown: Mutex::default(),
            open: Mutex::default(),
            found: Mutex::default(),
            last: AtomicUsize::new(0),
            seen: Seen::default(),
        }
    }

    fn now(&self) -> usize {
        locked(&self.log).len()
    }

    fn log(&self, what: Logged) {
        let mut log = locked(&self.log);
        log.push(((self.mark)(), what));
    }

    fn change(&self, thread: usize, change: Change) {
        self.log(Logged::Begun(thread, change.clone()));
        let made = make(self.store, &change);
        match made {
            Ok(()) => Seen::count(&self.seen.changes),
            Err(Error::Full) => Seen::count(&self.seen.refused),
            Err(error) => panic!("{change:?}: {error}"),
        }
        self.log(Logged::Ended(thread, made.is_ok()));
    }

    /// Adds missing elements, a few at a time, unless there are enough.
    fn fill(&self, start: &State) {
        if start.len() > Kind::ALL.len() * EACH / 2 {
            return;
        }
        let mut rng = fastrand::Rng::with_seed(self.seed);
        for kind in Kind::ALL {
            let ids: Vec<usize> = (0..EACH).filter(|_| rng.usize(..8) > 0).collect();
            for ids in ids.chunks(24) {
                let put = |id: &usize| write_of(kind, *id, &mut rng);
                self.change(0, Change::Write(ids.iter().map(put).collect()));
            }
        }
    }

    fn draw(&self, writer: usize, rng: &mut fastrand::Rng) -> Change {
        let kind = |rng: &mut fastrand::Rng| Kind::ALL[rng.usize(..Kind::ALL.len())];
        // Each writer has its own elements, so that little depends on the order.
        let own = |rng: &mut fastrand::Rng| rng.usize(..EACH / WRITERS) * WRITERS + writer;
        match rng.usize(..42) {
            0 if self.cast.clears => Change::Clear,
            1 => Change::RemoveGroup(rng.usize(..EACH / GROUP)),
            // The row that an iterator has just shown, or the writer's own.
            2..9 => Change::Update(match rng.bool() {
                true => self.last.load(Relaxed),
                false => own(rng),
            }),
            9..16 => {
                let kind = kind(rng);
                Change::Write((0..16).map(|_| write_of(kind, own(rng), rng)).collect())
            }
            _ => {
                let count = 1 + rng.usize(..3) / 2 * 2;
                let one = |_| {
                    let (element, version) = write_of(kind(rng), own(rng), rng);
                    (element, if rng.usize(..5) == 0 { 0 } else { version })
                };
                Change::Write((0..count).map(one).collect())
            }
        }
    }

    fn write(&self, writer: usize) {
        let own = (0..self.cast.changes).filter(|n| n % WRITERS == writer);
        for n in own.filter(|n| (self.has)(*n)) {
            let mut rng = fastrand::Rng::with_seed(self.seed << 20 ^ n as u64);
            (0..rng.usize(..self.cast.pauses)).for_each(|_| yield_now());
            self.change(writer, self.draw(writer, &mut rng));
            if rng.usize(..8) == 0 {
                self.store.maintain();
            }
        }
    }

    /// Goes through the store by iterators.
    fn walk(&self, walker: usize) {
        let mut rng = fastrand::Rng::with_seed(self.seed << 8 | 0x40 | walker as u64);
        for _ in 0..self.cast.walks {
            let kind = [Kind::Row, Kind::Row, Kind::Row, Kind::Field, Kind::Member, Kind::Key];
            let kind = kind[rng.usize(..kind.len())];
            let (mut ids, from) = (0..EACH, self.now());
            let (mut pauses, mut shown) = (rng.fork(), 0);
            let between = |id| {
                shown += 1;
                self.last.store(id, Relaxed);
                // Other threads are most likely to run between two batches.
                let most = if shown % BATCH == 0 { 60 } else { 3 };
                (0..pauses.usize(..most)).for_each(|_| yield_now());
            };
            let items = match kind {
                Kind::Row => {
                    let table = rows(self.store);
                    let ends = [Ends::Front, Ends::Back, Ends::Both][rng.usize(..3)];
                    let rows = match rng.usize(..3) {
                        0 => table.iter(),
                        1 => {
                            let of = rng.usize(..EACH / GROUP);
                            ids = group(of);
                            table.prefix((of as u8,))
                        }
                        _ => {
                            let from = rng.usize(..EACH);
                            ids = from..from + rng.usize(..EACH - from);
                            table.range(row_key(ids.start)..row_key(ids.end))
                        }
                    };
                    take_rows(rows, ends, between)
                }
                kind => take_unordered(self.store, Some(self.store.keys()), kind, between),
            };
            let items = items.expect("a store that can be read");
            let shown = Shown { kind, ids, items, window: (from, self.now()) };
            locked(&self.shown).push(shown);
            Seen::count(&self.seen.walks);
        }
    }

    /// Takes snapshots and drops them.
    fn take(&self) {
        let mut rng = fastrand::Rng::with_seed(self.seed << 8 | 0x80);
        for number in 0..self.cast.turns {
            (0..rng.usize(..40)).for_each(|_| yield_now());
            let most = self.cast.snapshots.min(MOST_SNAPSHOTS);
            let open = locked(&self.open).len();
            if open >= most || rng.usize(..self.cast.snapshots) == 0 && open > 0 {
                // Dropped without the lock, unless a reader has it.
                let at = rng.usize(..open);
                let dropped = locked(&self.open).remove(at);
                drop(dropped);
            }
            let from = self.now();
            match self.store.snapshot() {
                Ok(snapshot) => {
                    let window = (from, self.now());
                    let (found, has_expired) = (Mutex::default(), AtomicBool::new(false));
                    let taken = Taken { snapshot, number, window, found, has_expired };
                    locked(&self.open).push(Arc::new(taken));
                }
                Err(Error::TooManySnapshots) => {
                    // Those that a reader still has count too.
                    let open = locked(&self.open).len();
                    assert!(open + READERS >= MOST_SNAPSHOTS, "there were only {open}");
                    Seen::count(&self.seen.too_many);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads the snapshots that are open.
    fn read(&self, reader: usize) {
        let mut rng = fastrand::Rng::with_seed(self.seed << 8 | 0xc0 | reader as u64);
        for _ in 0..2 * self.cast.turns {
            let taken = {
                let open = locked(&self.open);
                (!open.is_empty()).then(|| Arc::clone(&open[rng.usize(..open.len())]))
            };
            match taken {
                Some(taken) => self.read_snapshot(&taken, &mut rng),
                None => (0..20).for_each(|_| yield_now()),
            }
        }
    }

    fn read_snapshot(&self, taken: &Taken<'s>, rng: &mut fastrand::Rng) {
        let pause = |_| {
            if rng.usize(..20) == 0 {
                yield_now();
            }
        };
        let found = match read(&taken.snapshot, taken.snapshot.keys(), pause) {
            Ok(found) => found,
            Err(Error::SnapshotExpired) => return self.expired(taken),
            Err(error) => panic!("a snapshot: {error}"),
        };
        assert!(!taken.has_expired.load(Relaxed), "a snapshot is read after it ended");
        Seen::count(&self.seen.read);
        let mut first = locked(&taken.found);
        let first = first.get_or_insert_with(|| {
            locked(&self.found).push((taken.window, found.clone()));
            found.clone()
        });
        let differs = first.difference(&found);
        assert!(differs.is_empty(), "a snapshot showed one thing, and then another: {differs:?}");
    }

    /// A snapshot has expired: so have all older ones.
    fn expired(&self, taken: &Taken<'s>) {
        taken.has_expired.store(true, Relaxed);
        Seen::count(&self.seen.expired);
        let older: Vec<Arc<Taken<'s>>> = {
            let open = locked(&self.open);
            open.iter().filter(|other| other.number < taken.number).map(Arc::clone).collect()
        };
        for other in &older {
            let read = other.snapshot.exists(HASH);
            assert_eq!(read, Err(Error::SnapshotExpired), "a younger snapshot ended first");
        }
    }

    /// Runs all threads on a store that holds `start`, and compares what they saw with what may
    /// have existed.
    pub(super) fn run(self, start: &State) -> Result<Happened, String> {
        self.fill(start);
        let scene = &self;
        let mut bodies: Vec<Box<dyn FnOnce() + Send + '_>> = vec![Box::new(|| scene.take())];
        (0..WRITERS).for_each(|n| bodies.push(Box::new(move || scene.write(n))));
        (0..WALKERS).for_each(|n| bodies.push(Box::new(move || scene.walk(n))));
        (0..READERS).for_each(|n| bodies.push(Box::new(move || scene.read(n))));
        run_scheduled(self.seed, bodies);
        locked(&self.open).clear();
        self.check(start)
    }

    fn check(self, start: &State) -> Result<Happened, String> {
        let log = std::mem::take(&mut *locked(&self.log));
        let possible = possible(start, log.iter().map(|(_, what)| what));
        for shown in locked(&self.shown).iter() {
            shown.check(&possible)?;
            if shown.window.0 < shown.window.1 {
                Seen::count(&self.seen.concurrent);
                self.seen.stayed.fetch_add(shown.stayed(&possible).count(), Relaxed);
            }
        }
        for ((from, to), found) in locked(&self.found).iter() {
            let mut at_cut = possible[*from..=*to].iter().flatten();
            if !at_cut.any(|state| **state == *found) {
                let nearest = possible[*to].iter().map(|state| state.difference(found));
                let nearest = nearest.min_by_key(Vec::len);
                return Err(format!("a snapshot shows a state that never was: {nearest:?}"));
            }
        }
        let left =
            read(self.store, self.store.keys(), |_| ()).map_err(|error| error.to_string())?;
        let last = possible.last().expect("the start");
        if !last.iter().any(|state| **state == left) {
            return Err(format!("at the end: {:?}", last[0].difference(&left)));
        }
        while self.store.maintain() {}
        self.store.verify()?;
        Ok(Happened { log, possible, seen: self.seen })
    }
}

fn write_of(kind: Kind, id: usize, rng: &mut fastrand::Rng) -> (Element, u16) {
    let version = if kind == Kind::Member { 1 } else { rng.u16(1..60_000) };
    (Element { kind, id }, version)
}
