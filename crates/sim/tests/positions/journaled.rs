//! A primary's own place in a pool with a journal on a disk, whose process ends at any moment: the
//! rings have every byte that was stored, while the last commits may be lost though they have
//! ended, since their records were in the process.
//!
//! Sometimes the pool is replaced by a copy of it, of an earlier moment, that was made beside the
//! rings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use heap::{CreateOptions, Heap};
use keyspace::Keyspace;
use pmem::{Region, SyncPolicy};
use replication::ring::Medium;
use sim::{FileEvent, FilesState, Named, SimulatedFiles, run_scheduled};

use super::primary::{Meaning, Media, Primary, RING, found, read};
use super::replicas::{Data, Found, History, Rule};
use super::{NOW, ZONE, geometry};

const LIMIT: usize = ZONE * 2 - 1;
const JOURNAL: u64 = 64 << 10;
const THREADS: usize = 3;

/// What was examined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) images: u64,
    pub(crate) places: u64,
    /// Places after which commits are lost that had ended.
    pub(crate) behind: u64,
    /// Copies whose place was believed.
    pub(crate) copies: u64,
    /// Places without bytes that replicas lack.
    pub(crate) lacking: u64,
}

type Rings = [Arc<Vec<u8>>; 2];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of the rings, now and at each mark.
struct Files {
    ks: Arc<Keyspace>,
    files: SimulatedFiles,
    rings: Arc<Mutex<[Vec<u8>; 2]>>,
    marks: Mutex<Vec<Rings>>,
    policy: SyncPolicy,
}

struct InFile {
    rings: Arc<Mutex<[Vec<u8>; 2]>>,
    number: usize,
}

impl Medium for InFile {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        lock(&self.rings)[self.number][at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn write_back(&mut self, _: u64, _: usize) {}

    fn fence(&mut self) {}
}

impl Media for Files {
    fn mark(&self) -> usize {
        let mut marks = lock(&self.marks);
        let now = lock(&self.rings);
        let last = marks.last();
        let same = |n: usize| last.map(|last| &last[n]).filter(|last| ***last == now[n]).cloned();
        let all = [0, 1].map(|n| same(n).unwrap_or_else(|| Arc::new(now[n].clone())));
        self.files.mark(marks.len());
        marks.push(all);
        marks.len() - 1
    }

    fn ring(&self, number: usize) -> Box<dyn Medium> {
        Box::new(InFile { rings: Arc::clone(&self.rings), number })
    }

    fn settle(&self) -> Result<(), String> {
        let region = self.ks.heap().region();
        let settled = region.acknowledge(region.appended(), self.policy);
        settled.map_err(|error| error.to_string())
    }

    fn is_settled(&self) -> bool {
        false
    }
}

/// What may be found.
#[derive(Clone, Default)]
struct Allowed {
    /// All histories, the last one that of the place that is kept, or about to be.
    histories: Vec<History>,
    /// The last one is kept, whatever becomes of the process,
    is_kept: bool,
    /// ... unless it is lost by now.
    may_be_lost: bool,
    /// The end of the last commit that has ended.
    end: u64,
}

impl Allowed {
    /// Returns true if there must be a place.
    fn is_strict(&self) -> bool {
        self.is_kept && !self.may_be_lost
    }

    fn note(&mut self, meaning: &Meaning) {
        match meaning {
            Meaning::Begun(_, change) => {
                self.may_be_lost |= change.is_lost;
                let last = self.histories.last_mut();
                last.into_iter().for_each(|history| history.bare.extend(change.bare));
            }
            Meaning::Ended(_, Some(end)) => self.end = *end,
            Meaning::Shown(len) => {
                if let Some(history) = self.histories.last_mut() {
                    history.sent = history.sent.max(*len);
                }
            }
            Meaning::Keeps(history) => {
                self.end = history.begun;
                self.histories.push(history.clone());
                // Until it is settled the one before may be there.
                (self.is_kept, self.may_be_lost) = (false, false);
            }
            Meaning::Kept => self.is_kept = true,
            Meaning::Refused(_) | Meaning::Ended(_, None) | Meaning::Said => {}
        }
    }
}

/// Explores the ends of processes.
pub(crate) struct Explorer {
    rng: Rng,
    pub(crate) looked: Looked,
}

/// Explores a seed; the first violation is the error.
pub(crate) fn explore(seed: u64, actions: usize) -> Result<Looked, String> {
    let mut explorer = Explorer { rng: Rng::with_seed(seed), looked: Looked::default() };
    let rings = [0, 1].map(|_| Arc::new(vec![0; RING as usize]));
    let start = (FilesState::default(), rings);
    explorer.incarnation(start, None, actions, 0).map_err(|what| format!("seed {seed}: {what}"))?;
    Ok(explorer.looked)
}

fn open(files: &SimulatedFiles) -> Result<Arc<Keyspace>, String> {
    let region = Region::simulated_journaled(
        LIMIT,
        files.storage(Named::Pool),
        files.storage(Named::Journal),
        JOURNAL,
    );
    let heap = if Heap::is_blank(&region) {
        let options = CreateOptions { geometry: geometry(), ..CreateOptions::default() };
        Heap::create(region, &options).map_err(|error| error.to_string())?
    } else {
        Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
    };
    Ok(Arc::new(Keyspace::new(heap, NOW)))
}

fn look(files: &SimulatedFiles, rings: &Rings) -> Result<(Data, Option<Found>), String> {
    let ks = open(files)?;
    Ok((read(&ks)?, found(&ks, [&rings[0], &rings[1]])))
}

impl Explorer {
    /// Opens what the end of a process has left, uses it, and ends it everywhere.
    fn incarnation(
        &mut self,
        (start, rings): (FilesState, Rings),
        allowed: Option<Allowed>,
        actions: usize,
        depth: usize,
    ) -> Result<(), String> {
        let files = SimulatedFiles::new(start.clone());
        let ks = open(&files)?;
        let data = read(&ks)?;
        let found = found(&ks, [&rings[0], &rings[1]]);
        // As the server does: a place that was found is durably that of this opening.
        ks.heap().region().sync_up_to(ks.heap().region().appended()).map_err(|e| e.to_string())?;
        let policy = [SyncPolicy::Always, SyncPolicy::EverySecond][self.rng.usize(..2)];
        let now = Arc::new(Mutex::new([rings[0].to_vec(), rings[1].to_vec()]));
        let media = Files {
            ks: Arc::clone(&ks),
            files: files.clone(),
            rings: now,
            marks: Mutex::default(),
            policy,
        };
        media.mark();
        let (mut rng, seed) = (self.rng.fork(), self.rng.u64(..));
        let primary = Primary::begin(&ks, &media, (data.clone(), found.as_ref()), &mut rng);
        let failed = Mutex::new(None);
        let (shared, failure) = (&primary, &failed);
        let seeds: Vec<u64> = (0..actions).map(|_| rng.u64(..)).collect();
        let of_thread = |thread| {
            let seeds = &seeds;
            move || {
                for seed in seeds.iter().skip(thread).step_by(THREADS) {
                    if let Err(error) = shared.step(thread, Rng::with_seed(*seed)) {
                        *lock(failure) = Some(error);
                        return;
                    }
                }
            }
        };
        run_scheduled(seed, (0..THREADS).map(of_thread).collect());
        if let Some(error) = lock(&failed).take() {
            return Err(error);
        }
        let events = files.take_events();
        let meanings = std::mem::take(&mut *lock(&primary.marks));
        let marks = std::mem::take(&mut *lock(&media.marks));
        primary.stream.end_ring();
        drop(primary);
        drop(ks);
        let restored = allowed.unwrap_or_default();
        self.end_everywhere(start, &events, (restored, meanings, marks), depth)
    }

    fn end_everywhere(
        &mut self,
        mut state: FilesState,
        events: &[FileEvent],
        (mut allowed, meanings, marks): (Allowed, Vec<(usize, Meaning)>, Vec<Rings>),
        depth: usize,
    ) -> Result<(), String> {
        let (mut copies, mut mark) = (Vec::new(), 0);
        let mut meanings = meanings.into_iter().peekable();
        for (n, event) in events.iter().enumerate() {
            if !matches!(event, FileEvent::SyncBegin(_)) && mark > 0 && self.rng.usize(..6) == 0 {
                let rings = &marks[mark];
                let left = state.after_process_end();
                self.end((left, rings), &allowed, depth)
                    .map_err(|what| format!("{what}\nthe end before event {n}, mark {mark}"))?;
                if let Some(copy) = self.rng.choice(&copies).cloned() {
                    self.copy(copy, rings, &allowed)
                        .map_err(|what| format!("{what}\na copy before event {n}, mark {mark}"))?;
                }
            }
            state.apply(event);
            if let FileEvent::Mark(number) = event {
                mark = *number;
                while let Some((_, meaning)) = meanings.next_if(|(at, _)| *at <= mark) {
                    allowed.note(&meaning);
                }
            }
            if self.rng.usize(..100) == 0 {
                copies.push(state.after_process_end());
            }
        }
        Ok(())
    }

    /// Ends the process, and sees what the next one finds.
    fn end(
        &mut self,
        (left, rings): (FilesState, &Rings),
        allowed: &Allowed,
        depth: usize,
    ) -> Result<(), String> {
        let (data, found) = look(&SimulatedFiles::new(left.clone()), rings)?;
        self.looked.images += 1;
        let Some(place) = found.filter(|found| found.is_whole || allowed.is_strict()) else {
            return match allowed.is_strict() {
                true => Err("there is no place".into()),
                false => Ok(()),
            };
        };
        self.looked.places += 1;
        let first = allowed.histories.len().saturating_sub(if allowed.is_kept { 1 } else { 2 });
        let history = named(&allowed.histories[first..], &place)?;
        // The ring may have gone on for longer than it is.
        let is_far = allowed.end.saturating_sub(place.end) > RING / 3;
        let rule = if is_far { Rule::Everything } else { Rule::Whole };
        let lacks = history.check(&place, &data, rule)?;
        self.looked.lacking += u64::from(lacks);
        self.looked.behind += u64::from(allowed.end > place.end);
        if place.is_whole && depth < 2 && self.rng.usize(..25) == 0 {
            let restored = History {
                id: place.id,
                begun: place.end,
                data,
                db: None,
                before: Arc::new(place.bytes),
                log: Arc::default(),
                sent: 0,
                ended: Default::default(),
                bare: Default::default(),
                has_ring: false,
            };
            let allowed = Allowed {
                end: place.end,
                histories: vec![restored],
                is_kept: true,
                may_be_lost: false,
            };
            let actions = self.rng.usize(..20);
            self.incarnation((left, rings.clone()), Some(allowed), actions, depth + 1)?;
        }
        Ok(())
    }

    /// Puts an older copy of the pool beside the rings.
    fn copy(&mut self, copy: FilesState, rings: &Rings, allowed: &Allowed) -> Result<(), String> {
        let (data, found) = look(&SimulatedFiles::new(copy), rings)?;
        self.looked.images += 1;
        if let Some(place) = found.filter(|found| found.is_whole)
            && let Ok(history) = named(&allowed.histories, &place)
        {
            self.looked.copies += 1;
            history.check(&place, &data, Rule::Safety)?;
        }
        Ok(())
    }
}

fn named<'h>(histories: &'h [History], place: &Found) -> Result<&'h History, String> {
    let is_it = |history: &&History| {
        history.id == place.id && (!history.has_ring || history.begun == place.begun)
    };
    histories.iter().rev().find(is_it).ok_or_else(|| format!("a place of {}", place.id))
}
