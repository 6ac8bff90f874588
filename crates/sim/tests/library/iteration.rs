//! Iterators and snapshots while other threads write, under the deterministic scheduler and in the
//! crash search.
//!
//! What must hold: elements that exist throughout an iteration are shown, rows of a table in their
//! order and each once, and nothing is shown that did not exist at some moment of it. A snapshot
//! shows, to each of its readers and each time, one state that existed between its call and its
//! return, whatever is written or deleted meanwhile. When snapshots hold too much the oldest
//! expires, with an error, and no write is refused because of them. A crash at any moment of this
//! leaves what was acknowledged, with any of the changes under way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use heap::{CreateOptions, Geometry, Heap};
use perdura::{Error, Perdura};
use pmem::Region;
use sim::{Crash, Effort, Incarnation, Medium, Promise, Promises, Workload, explore};

use super::actors::{Cast, Happened, Scene, Seen, read};
use super::model::State;

/// Two shards, so that each has more keys than an iterator reads at once, and records that hold all
/// rows of a group.
fn geometry() -> Geometry {
    Geometry { shards: 2, ring_parts: 3, ring_part: 32_768, zone_spans: ZONE }
}

const ZONE: usize = 24;
/// Space for everything that snapshots hold.
const ROOMY: usize = 65536 * ZONE * 8 - 1;
/// Less space, since all of it is an image.
const TIGHT: usize = 65536 * ZONE * 3 - 1;

fn create(region: Region) -> Result<Heap, String> {
    let options = CreateOptions { geometry: geometry(), ..CreateOptions::default() };
    Heap::create(region, &options).map_err(|error| error.to_string())
}

const CAST: Cast =
    Cast { changes: 90, walks: 12, snapshots: 3, turns: 16, pauses: 60, clears: true };

/// Runs a seed without a crash. A panic of a thread is an error too.
fn run(seed: u64, cast: Cast, limit: Option<u64>) -> Result<Seen, String> {
    let heap = create(Region::simulated_growing(ROOMY, Medium::new()))?;
    if let Some(limit) = limit {
        heap.set_snapshot_limit(limit);
    }
    let store = super::store(heap);
    let scene = Scene::new(&store, cast, seed, &|| 0, &|_| true);
    let ran = catch_unwind(AssertUnwindSafe(|| scene.run(&State::empty())));
    let happened = ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.unwrap_or_else(|| panic.downcast_ref::<&str>().map_or("", |text| text).into()))
    });
    happened.map(|happened| happened.seen).map_err(|what| format!("seed {seed}: {what}"))
}

/// Runs seeds, and adds up the results.
fn check(seeds: std::ops::Range<u64>, cast: impl Fn(u64) -> Cast, limit: Option<u64>) -> Seen {
    let all = Seen::default();
    for seed in seeds {
        let seen = run(seed, cast(seed), limit).unwrap_or_else(|what| panic!("{what}"));
        let add = |sum: &AtomicUsize, count: AtomicUsize| {
            sum.fetch_add(count.into_inner(), Relaxed);
        };
        add(&all.changes, seen.changes);
        add(&all.refused, seen.refused);
        add(&all.walks, seen.walks);
        add(&all.concurrent, seen.concurrent);
        add(&all.stayed, seen.stayed);
        add(&all.read, seen.read);
        add(&all.expired, seen.expired);
        add(&all.too_many, seen.too_many);
    }
    println!("{all:?}");
    all
}

fn count(count: &AtomicUsize) -> usize {
    count.load(Relaxed)
}

#[test]
fn iterators_and_snapshots_show_what_there_was_while_others_write() {
    let _alone = super::alone();
    let seen = check(0..24, |seed| Cast { clears: seed % 3 == 0, ..CAST }, None);
    assert!(count(&seen.concurrent) > 250 && count(&seen.stayed) > 20_000, "{seen:?}");
    assert!(count(&seen.read) > 400 && count(&seen.refused) == 0, "{seen:?}");
}

#[test]
fn as_many_snapshots_as_may_be_show_each_its_own_state() {
    let _alone = super::alone();
    let cast = Cast { changes: 150, walks: 4, snapshots: 1000, turns: 90, ..CAST };
    let seen = check(0..3, |_| cast, None);
    assert!(count(&seen.read) > 300, "{seen:?}");
}

#[test]
fn the_oldest_snapshot_ends_when_all_hold_too_much_and_no_write_is_refused() {
    let _alone = super::alone();
    let cast = Cast { changes: 150, snapshots: 6, turns: 24, walks: 2, ..CAST };
    let seen = check(0..12, |_| cast, Some(40_000));
    assert!(count(&seen.expired) > 50 && count(&seen.read) > 50, "{seen:?}");
    assert_eq!(count(&seen.refused), 0, "{seen:?}");
}

/// The same, for the crash search.
struct Concurrent;

impl Workload for Concurrent {
    type State = Arc<State>;
    type Store = Perdura;

    fn reserve(&self) -> usize {
        TIGHT
    }

    fn empty(&self) -> Arc<State> {
        Arc::new(State::empty())
    }

    fn open(&self, region: Region) -> Result<Perdura, String> {
        let heap = match Heap::is_blank(&region) {
            true => create(region)?,
            false => Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0,
        };
        Ok(super::store(heap))
    }

    fn read(&self, store: &mut Perdura) -> Result<Arc<State>, String> {
        let state = read(store, store.keys(), |_| ()).map_err(|error: Error| error.to_string())?;
        store.verify()?;
        Ok(Arc::new(state))
    }

    fn accept(&self, found: &Arc<State>, promised: &Arc<State>) -> Option<Arc<State>> {
        (found == promised).then(|| Arc::clone(found))
    }

    fn difference(&self, found: &Arc<State>, allowed: &[Arc<State>]) -> String {
        let nearest = allowed.iter().map(|state| state.difference(found)).min_by_key(Vec::len);
        format!("elements, their versions that may be, and those that were found: {nearest:?}")
    }

    fn run_incarnation(
        &self,
        store: &mut Perdura,
        state: Arc<State>,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<Arc<State>>, String> {
        let actions = incarnation.actions;
        let cast =
            Cast { changes: actions, walks: actions / 6, turns: actions / 2, pauses: 4, ..CAST };
        let seed = incarnation.rng.clone().u64(..1 << 40);
        let (mark, has) = (|| incarnation.mark(), |n| incarnation.has(n));
        let scene = Scene::new(store, cast, seed, &mark, &has);
        let Happened { log, possible, seen } = scene.run(&state)?;
        (0..count(&seen.refused)).for_each(|_| incarnation.refused());
        let promise = |((mark, what), allowed): (_, Vec<Arc<State>>)| {
            incarnation.record(0, || format!("{what:?}"));
            let doing = if allowed.len() > 2 { vec!["several threads"] } else { Vec::new() };
            (mark, Promise { allowed, doing })
        };
        Ok(log.into_iter().zip(possible.into_iter().skip(1)).map(promise).collect())
    }
}

fn effort(crash: Crash, seed: u64) -> Effort {
    Effort {
        transactions: 24,
        images: 2,
        all_of: 2,
        depth: 1,
        go_on_one_in: 300,
        process_one_in: 300,
        shrink_seconds: 0,
        ..Effort::new(crash, seed)
    }
}

fn crash(crash: Crash, seed: u64) {
    let _alone = super::alone();
    let found = explore(&Concurrent, effort(crash, seed));
    let counts = found.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{crash:?} {seed}: {counts:?}");
    assert!(counts.images > 1000 && counts.refused < 20, "{counts:?}");
    assert!(counts.doing["several threads"] > 20, "the threads hardly met: {counts:?}");
}

#[test]
fn a_crash_while_others_read_leaves_whole_changes_in_the_strict_model() {
    crash(Crash::Strict, 1);
}

#[test]
fn a_crash_while_others_read_leaves_whole_changes_in_the_x86_model() {
    crash(Crash::X86, 2);
}

/// The search can detect that something is lost while others read.
#[test]
fn a_commit_without_its_fence_is_caught() {
    let _alone = super::alone();
    let found = without(heap::FaultPoint::FenceCommit, || {
        (1..4).find_map(|seed| explore(&Concurrent, effort(Crash::Strict, seed)).err())
    });
    println!("{}", found.as_ref().expect("a violation"));
}

/// The rules about what snapshots save and hold.
#[test]
fn each_rule_of_snapshots_is_needed_for_what_is_shown() {
    let _alone = super::alone();
    use heap::FaultPoint::{
        ReadOwnCut, ReturnAfterPins, ReuseAfterPins, SaveEachWord, SaveFirstValue, SaveInEach,
        SaveOverlay,
    };
    for point in [
        SaveOverlay,
        SaveEachWord,
        SaveFirstValue,
        SaveInEach,
        ReadOwnCut,
        ReuseAfterPins,
        ReturnAfterPins,
    ] {
        let caught = without(point, || (0..24).find_map(|seed| run(seed, CAST, None).err()));
        println!("{point:?} is caught: {caught:?}");
        assert!(caught.is_some(), "{point:?} is not caught");
    }
}

fn without<R>(point: heap::FaultPoint, work: impl FnOnce() -> R) -> R {
    pmem::disable_fault_point(point.number());
    let done = work();
    pmem::disable_fault_point(0);
    done
}
