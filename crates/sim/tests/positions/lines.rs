//! A primary's own place on persistent memory: the pool and both rings are in one region, and every
//! word of it that was not made durable is lost or not in a power cut.
//!
//! Threads commit at the same time. So a fence of one of them does not make durable what another
//! one has written back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use heap::{CreateOptions, Heap};
use keyspace::Keyspace;
use pmem::Region;
use replication::ring::Medium;
use sim::{Incarnation, Promise, Promises, Workload, run_scheduled};

use super::primary::{Change, Meaning, Media, Primary, RING, found, read};
use super::replicas::{Data, Found, History, Rule};
use super::{NOW, geometry};

/// Where the rings are: beyond all that the pool can grow to.
const RINGS: u64 = (LIMIT as u64 - 2 * RING) & !4095;
const LIMIT: usize = super::ZONE * 2 - 1;

/// The data, its history, and what an opening has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The pool's incarnation.
    epoch: u32,
    data: Data,
    history: Option<History>,
    found: Option<Found>,
}

/// Primaries on persistent memory.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) threads: usize,
    /// How many places were found, how many of them with bytes of the stream, and how many without
    /// those that replicas lacked.
    pub(crate) found: AtomicU64,
    pub(crate) whole: AtomicU64,
    pub(crate) lacking: AtomicU64,
}

/// A ring in the region of a pool.
struct InRegion {
    ks: Arc<Keyspace>,
    at: u64,
}

impl InRegion {
    fn region(&self) -> &Region {
        self.ks.heap().region()
    }
}

impl Medium for InRegion {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= RING);
        // SAFETY: the pool ends before the rings, and no slice of them lives while they are used.
        unsafe { self.region().write(self.at + at, bytes) };
    }

    fn write_back(&mut self, at: u64, len: usize) {
        self.region().flush(self.at + at, len);
    }

    fn fence(&mut self) {
        self.region().fence();
    }
}

struct OfIncarnation<'i> {
    ks: Arc<Keyspace>,
    incarnation: &'i Incarnation<'i>,
}

impl Media for OfIncarnation<'_> {
    fn mark(&self) -> usize {
        self.incarnation.mark()
    }

    fn ring(&self, number: usize) -> Box<dyn Medium> {
        Box::new(InRegion { ks: Arc::clone(&self.ks), at: RINGS + number as u64 * RING })
    }

    fn settle(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_settled(&self) -> bool {
        true
    }
}

impl Workload for Lines {
    type State = State;
    type Store = Arc<Keyspace>;

    fn reserve(&self) -> usize {
        LIMIT
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn open(&self, region: Region) -> Result<Arc<Keyspace>, String> {
        let heap = if Heap::is_blank(&region) {
            let options = CreateOptions { geometry: geometry(), ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        heap.region().grow(RINGS + 2 * RING).map_err(|error| error.to_string())?;
        Ok(Arc::new(Keyspace::new(heap, NOW)))
    }

    fn read(&self, ks: &mut Arc<Keyspace>) -> Result<State, String> {
        let data = read(ks)?;
        let region = ks.heap().region();
        // SAFETY: nothing is stored into the rings while the slices live.
        let ring = |number: u64| unsafe { region.bytes(RINGS + number * RING, RING as usize) };
        let found = found(ks, [ring(0), ring(1)]);
        Ok(State { epoch: ks.heap().epoch(), data, history: None, found })
    }

    fn accept(&self, found: &State, promised: &State) -> Option<State> {
        (self.judge(found, promised).ok()?).then(|| found.go_on())
    }

    fn difference(&self, found: &State, allowed: &[State]) -> String {
        let mut text = format!(
            "found {:?}, {:?}",
            found.data,
            found.found.as_ref().map(|found| {
                (found.id, found.begun, found.end, found.bytes.len(), &found.words)
            })
        );
        for promised in allowed {
            text += &format!("\nallowed {:?}, {:?}", promised.data, promised.history);
            if let Err(why) = self.judge(found, promised) {
                text += &format!(": {why}");
            }
        }
        text
    }

    fn run_incarnation(
        &self,
        ks: &mut Arc<Keyspace>,
        state: State,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<State>, String> {
        let mut rng = incarnation.rng.clone();
        let media = OfIncarnation { ks: Arc::clone(ks), incarnation };
        let start = (state.data.clone(), state.found.as_ref());
        let primary = Primary::begin(ks, &media, start, &mut rng);
        let failed = Mutex::new(None);
        let (shared, failure) = (&primary, &failed);
        let of_thread = |thread| {
            move || {
                let own = (0..incarnation.actions).filter(|n| n % self.threads == thread);
                for n in own.filter(|n| incarnation.has(*n)) {
                    let done = shared.step(thread, incarnation.rng_of(n));
                    if let Ok(text) = &done {
                        incarnation.record(n, || format!("thread {thread}: {text}"));
                    }
                    if let Err(error) = done {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        return;
                    }
                }
            }
        };
        run_scheduled(rng.u64(..), (0..self.threads).map(of_thread).collect());
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let marks = |primary: &Primary<'_>| {
            std::mem::take(&mut *primary.marks.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut fold = Fold { state, under_way: BTreeMap::new(), begins: None };
        let mut promises = fold.promises(marks(&primary));
        if rng.u8(..3) == 0 && fold.state.history.is_some() {
            primary.leave()?;
            promises.extend(fold.promises(marks(&primary)));
        }
        primary.stream.end_ring();
        if rng.bool() {
            ks.heap().close().map_err(|error| error.to_string())?;
        }
        Ok(promises)
    }
}

impl Lines {
    /// Returns whether what was found is this.
    fn judge(&self, found: &State, promised: &State) -> Result<bool, String> {
        if found.data != promised.data {
            return Err("other data".into());
        }
        let (place, history) = match (&found.found, &promised.history) {
            (None, None) => return Ok(true),
            (Some(place), None) if !place.is_whole => return Ok(true),
            // A crash within an opening may end a place that was found.
            (None, Some(_)) if found.epoch > promised.epoch + 1 => return Ok(true),
            (None, Some(history)) if !history.has_ring => return Ok(true),
            (Some(place), Some(history)) if place.id == history.id => (place, history),
            _ => return Err("another place".into()),
        };
        if history.has_ring && place.begun != history.begun {
            return Err("a place that began elsewhere".into());
        }
        let lacks = history.check(place, &found.data, Rule::Everything)?;
        self.found.fetch_add(1, Relaxed);
        self.whole.fetch_add(u64::from(!place.bytes.is_empty()), Relaxed);
        self.lacking.fetch_add(u64::from(lacks), Relaxed);
        Ok(true)
    }
}

impl State {
    /// Returns the state with which another incarnation begins that finds this.
    fn go_on(&self) -> State {
        let restored = |found: &Found| History {
            id: found.id,
            begun: found.end,
            data: self.data.clone(),
            db: None,
            before: Arc::new(found.bytes.clone()),
            log: Arc::default(),
            sent: 0,
            ended: found.words.iter().copied().collect(),
            bare: BTreeSet::new(),
            has_ring: false,
        };
        let found = self.found.as_ref().filter(|found| found.is_whole);
        State { history: found.map(restored), ..self.clone() }
    }
}

/// Makes promises of marks.
struct Fold {
    state: State,
    under_way: BTreeMap<usize, Change>,
    /// The history whose place is about to be kept.
    begins: Option<History>,
}

impl Fold {
    fn promises(&mut self, marks: Vec<(usize, Meaning)>) -> Promises<State> {
        marks.into_iter().map(|(mark, meaning)| (mark, self.promise(meaning))).collect()
    }

    fn promise(&mut self, meaning: Meaning) -> Promise<State> {
        let has_shards = !matches!(meaning, Meaning::Keeps(_) | Meaning::Shown(_) | Meaning::Said);
        if has_shards && let Some(history) = self.begins.take() {
            // All shards were locked until it was kept.
            self.state.history = Some(history);
        }
        match meaning {
            Meaning::Begun(thread, change) => {
                if let Some(history) = &mut self.state.history {
                    history.bare.extend(change.bare);
                }
                self.under_way.insert(thread, change);
            }
            Meaning::Ended(thread, end) => {
                let change = self.under_way.remove(&thread).unwrap_or_default();
                self.state.apply(&change);
                if let (Some(history), Some(end)) = (&mut self.state.history, end) {
                    history.ended.insert(end);
                }
            }
            Meaning::Refused(thread) => drop(self.under_way.remove(&thread)),
            Meaning::Shown(len) => {
                if let Some(history) = self.begins.as_mut().or(self.state.history.as_mut()) {
                    history.sent = history.sent.max(len);
                }
            }
            Meaning::Keeps(history) => self.begins = Some(history),
            Meaning::Kept | Meaning::Said => {}
        }
        let mut allowed = vec![self.state.clone()];
        for change in self.under_way.values() {
            for mut with in allowed.clone() {
                with.apply(change);
                allowed.push(with);
            }
        }
        if let Some(history) = &self.begins {
            allowed.push(State { history: Some(history.clone()), ..self.state.clone() });
        }
        let doing = if allowed.len() > 2 { vec!["several threads"] } else { Vec::new() };
        Promise { allowed, doing }
    }
}

impl State {
    fn apply(&mut self, change: &Change) {
        for (key, is_there) in &change.keys {
            match is_there {
                true => self.data.insert(*key),
                false => self.data.remove(key),
            };
        }
        if change.is_lost {
            self.history = None;
        }
    }
}
