//! A search for violations: explorations of all kinds, one seed after the other, on several cores.

use crate::engine::{Commands, generate};
use crate::histories;
use crate::journaled::{self, Medium};
use crate::overlap::crashes;
use crate::overlap::late_syncs::{Background, SYNCS_SLOWLY, lose};
use crate::pool::Pool;
use crate::scheduled::Threads;
use commands::{Engine, EngineOptions};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use pmem::SyncPolicy;
use sim::{Counts, Crash, Effort, Failure, explore};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What to search, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) first: u64,
    pub(crate) jobs: usize,
    pub(crate) most: Duration,
    /// Many short explorations: to find quickly what can be found.
    pub(crate) hasty: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) counts: Counts,
    /// The first seed that was not explored.
    pub(crate) next: u64,
    /// The first violation: its seed, and a description.
    pub(crate) violation: Option<(u64, String)>,
}

/// A history of several threads.
const LATE: &(&str, fn()) = &("acknowledgements_wait_for_a_sync_that_is_late", || {
    let lost = lose(SYNCS_SLOWLY, SyncPolicy::EverySecond, Background::Two, 0);
    assert!(lost.most <= Duration::from_secs(2), "{lost:?}");
});

impl Search {
    /// Goes through the known histories, then explores seeds until time is up or one fails.
    pub(crate) fn run(&self) -> Found {
        for (name, history) in histories::all().chain([LATE]) {
            if catch_unwind(history).is_err() {
                let what = format!("a known history\n{name}");
                return Found { violation: Some((0, what)), ..Found::default() };
            }
        }
        let (start, next, stop) =
            (Instant::now(), AtomicU64::new(self.first), AtomicBool::new(false));
        let found = Mutex::new(Found::default());
        let work = || {
            while start.elapsed() < self.most && !stop.load(Relaxed) {
                let seed = next.fetch_add(1, Relaxed);
                let outcome = explore_seed(seed, self.hasty, start + self.most);
                let mut found = found.lock().expect("no panic");
                match outcome {
                    Ok(counts) => found.counts.add(&counts),
                    Err((kind, failure)) => {
                        stop.store(true, Relaxed);
                        found.violation.get_or_insert((seed, format!("{kind}\n{failure}")));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(work);
            }
        });
        Found { next: next.into_inner(), ..found.into_inner().expect("no panic") }
    }
}

/// The part of the program that is explored.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Heap,
    Threads,
    Commands,
    Journal,
    /// The journal alone, with several threads.
    Overlap,
}

/// The order of the kinds. Quick ones come first if time is short.
const KINDS: [Kind; 6] =
    [Kind::Commands, Kind::Heap, Kind::Commands, Kind::Threads, Kind::Journal, Kind::Overlap];
const HASTY: [Kind; 10] = [
    Kind::Journal,
    Kind::Threads,
    Kind::Heap,
    Kind::Heap,
    Kind::Heap,
    Kind::Heap,
    Kind::Commands,
    Kind::Commands,
    Kind::Threads,
    Kind::Overlap,
];

/// The number of transactions of an exploration with a journal.
const JOURNALED: usize = 40;
/// The number of fences of each thread in an exploration of several threads.
const OVERLAPPED: usize = 14;

/// The crash models, in turn.
const MODELS: [Crash; 9] = [
    Crash::Strict,
    Crash::X86,
    Crash::FlushedWords,
    Crash::Strict,
    Crash::SyncedWords,
    Crash::X86,
    Crash::Strict,
    Crash::SyncedPages,
    Crash::X86,
];

/// Runs one exploration, of the kind for this seed.
fn explore_seed(seed: u64, hasty: bool, until: Instant) -> Result<Counts, (String, Failure)> {
    let kinds: &[Kind] = if hasty { &HASTY } else { &KINDS };
    let n = seed.saturating_sub(1);
    let at = n as usize % kinds.len();
    let round = n / kinds.len() as u64;
    let crash = MODELS[(at + round as usize) % MODELS.len()];
    let quick = Effort {
        transactions: 40,
        images: 24,
        go_on_one_in: 100,
        process_one_in: 10,
        shrink_seconds: 0,
        ..Effort::new(crash, seed)
    };
    let thorough =
        Effort { images: 64, all_of: 4096, go_on_one_in: 800, ..Effort::new(crash, seed) };
    let effort = Effort { until: Some(until), ..if hasty { quick } else { thorough } };
    let shape = fastrand::Rng::with_seed(seed).u64(..);
    let spacious = shape.is_multiple_of(3);
    let zones = 1 + shape / 3 % 4;
    let shards = (shape / 12 % 4) as usize;
    let long_records = (shape / 48).is_multiple_of(8);
    let effort = Effort { streams: (shape / 768).is_multiple_of(2), ..effort };
    let purges = (shape / 1536).is_multiple_of(3);
    match kinds[at] {
        Kind::Heap => {
            let pool = Pool { spacious, long_records, purges, ..Pool::of(1 + shards, zones) };
            explore(&pool, effort).map_err(|failure| (format!("{pool:?}"), failure))
        }
        Kind::Threads => {
            let pool = Pool { spacious, long_records, purges, ..Pool::of(2 + shards % 3, zones) };
            let prepares = (shape / 384).is_multiple_of(2);
            let retires = (shape / 4608).is_multiple_of(2);
            let threads = Threads { retires, ..Threads::new(pool, 3, prepares) };
            explore(&threads, effort).map_err(|failure| (format!("threads of {pool:?}"), failure))
        }
        Kind::Journal => journal(seed),
        Kind::Overlap => overlap(seed),
        Kind::Commands => {
            let effort = Effort { go_on_one_in: effort.go_on_one_in * 2, ..effort };
            let commands = Commands::of(seed);
            explore(&commands, effort).map_err(|failure| (format!("{commands:?}"), failure))
        }
    }
}

/// Runs one exploration of a heap with a journal.
fn journal(seed: u64) -> Result<Counts, (String, Failure)> {
    let medium = match fastrand::Rng::with_seed(seed).u64(..) / 3072 % 4 {
        0 => Medium::Lines { streams: true },
        1 => Medium::Lines { streams: false },
        _ => Medium::Disk,
    };
    match journaled::explore(medium, seed, JOURNALED) {
        Ok(looked) => {
            let journaled::Looked { images, incarnations, .. } = looked;
            Ok(Counts { images, opened: images, incarnations, ..Counts::default() })
        }
        Err(what) => Err(("a heap with a journal".to_owned(), failure(seed, what))),
    }
}

/// Runs one exploration of a journal that several threads use.
fn overlap(seed: u64) -> Result<Counts, (String, Failure)> {
    match crashes::explore(seed, OVERLAPPED) {
        Ok(looked) => {
            let crashes::Looked { images, incarnations, .. } = looked;
            Ok(Counts { images, opened: images, incarnations, ..Counts::default() })
        }
        Err(what) => Err(("threads of a journal".to_owned(), failure(seed, what))),
    }
}

/// Returns a failure whose history cannot be shorter than its seed.
fn failure(seed: u64, what: String) -> Failure {
    let (path, history) = (Vec::new(), Vec::new());
    Failure { seed, crash: Crash::Strict, path, history, what }
}

/// Returns the names of all commands that write.
pub(crate) fn writers() -> Vec<&'static str> {
    let geometry = Geometry { shards: 1, ring_parts: 3, ring_part: 512, zone_spans: 8 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(1 << 20, &options).expect("a heap in memory");
    let engine = Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))));
    let writers = generate::writers(engine.table());
    writers.iter().map(|(words, _)| words[words.len() - 1]).collect()
}
