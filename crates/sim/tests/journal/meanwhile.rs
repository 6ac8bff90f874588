//! What somebody else does during a call of the files: each call of a use of a pool in its turn,
//! and each of some things to do.
//!
//! The threads of other tests meet at random; here one of them waits in a call, as for a slow disk,
//! until the other one has done its part, or waits for something that the first one has.

use crate::ledger::{self, Witness};
use crate::order;
use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::Contents;
use crate::overlap::pool::{self, store};
use crate::overlap::threads::Required;
use crate::starts::{self, Start};
use crate::uses::{RING, User};
use pmem::{Region, SyncPolicy};
use sim::{Counted, FileCall, FilesState, SimulatedClock, SimulatedFiles, run_scheduled};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

/// Lines that belong to none of the model's writers.
const OWN: u64 = 902;
const MOST_LINES: u64 = 110;
/// One call in this many is one at which something is done, where a use is long.
const PERIOD: usize = 13;
const ENOSPC: i32 = 28;

/// An action of the other thread, during a call of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Do {
    Fence,
    FenceLong,
    Write,
    WriteLong,
    Sync,
    SyncInBackground,
    Checkpoint,
}

const ALL: [Do; 7] = [
    Do::Fence,
    Do::Write,
    Do::SyncInBackground,
    Do::FenceLong,
    Do::Checkpoint,
    Do::Sync,
    Do::WriteLong,
];

/// At which calls something is done: the first one, the calls between two, and what is done first.
#[derive(Clone, Copy, Debug)]
struct Turns {
    phase: usize,
    period: usize,
    first: usize,
}

/// Somebody else, who does something each time that the turn comes.
struct Other {
    turn: Mutex<Option<Do>>,
    has_ended: AtomicBool,
    /// The calls are counted.
    has_begun: AtomicBool,
    calls: AtomicUsize,
    turns: Turns,
    /// The thread that uses the pool.
    user: Mutex<Option<ThreadId>>,
}

/// The value that the user stored last, and those that outlive the end of the process and a power
/// loss for certain.
#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    value: u64,
    after_process_end: u64,
    after_power_loss: u64,
}

impl Other {
    fn new(turns: Turns) -> Other {
        Other {
            turn: Mutex::default(),
            has_ended: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            turns,
            user: Mutex::default(),
        }
    }

    fn turn(&self) -> Option<Do> {
        *self.turn.lock().expect("no panic")
    }

    /// Takes the turn at some of the user's calls, and waits until it is over or cannot be.
    fn pass_turn(&self) {
        if *self.user.lock().expect("no panic") != Some(std::thread::current().id()) {
            return;
        }
        if !self.has_begun.load(Relaxed) || self.has_ended.load(Relaxed) {
            return;
        }
        let Turns { phase, period, first } = self.turns;
        let call = self.calls.fetch_add(1, Relaxed);
        if call % period != phase || self.turn().is_some() {
            return;
        }
        *self.turn.lock().expect("no panic") = Some(ALL[(call / period + first) % ALL.len()]);
        for _ in 0..60 {
            if self.turn().is_none() {
                break;
            }
            sim::wait();
        }
    }

    /// Does its part until the user has ended, or a call fails.
    fn go(&self, region: &Region) -> Stored {
        let mut stored = Stored::default();
        while !self.has_ended.load(Relaxed) {
            let Some(what) = self.turn() else {
                sim::wait();
                continue;
            };
            let done = act(region, what, &mut stored);
            *self.turn.lock().expect("no panic") = None;
            if !done {
                break;
            }
        }
        // What was only fenced is acknowledged at the end, whatever has become of the journal.
        let is_kept = |policy| region.acknowledge(region.appended(), policy).is_ok();
        if region.journal_failure().is_none() && is_kept(SyncPolicy::Always) {
            (stored.after_process_end, stored.after_power_loss) = (stored.value, stored.value);
        }
        stored
    }
}

fn act(region: &Region, what: Do, stored: &mut Stored) -> bool {
    let lines = match what {
        Do::FenceLong | Do::WriteLong => MOST_LINES,
        _ => 1,
    };
    match what {
        Do::SyncInBackground => return region.sync_in_background().is_ok(),
        Do::Checkpoint => return region.checkpoint_step().is_ok(),
        _ => {}
    }
    stored.value += 1;
    for line in OWN..OWN + lines {
        store(region, line * 64, stored.value);
        region.flush(line * 64, 64);
    }
    region.fence();
    let position = region.appended();
    let acknowledged = match what {
        Do::Fence | Do::FenceLong => return region.journal_failure().is_none(),
        Do::Sync => region.acknowledge(position, SyncPolicy::Always),
        _ => region.acknowledge(position, SyncPolicy::No),
    };
    if acknowledged.is_err() || region.journal_failure().is_some() {
        return false;
    }
    stored.after_process_end = stored.value;
    if what == Do::Sync {
        stored.after_power_loss = stored.value;
    }
    true
}

/// Refuses an image without what somebody else was promised.
fn check_stored(image: FilesState, promised: u64) -> Result<(), String> {
    let files = SimulatedFiles::new(image);
    let region = pool::map(&files, RING, &SimulatedClock::default());
    guarded(|| pool::open(&region))?;
    let found = region.load(OWN * 64);
    match found >= promised {
        true => Ok(()),
        false => Err(format!("{found} of the {promised} that somebody else was promised")),
    }
}

/// Runs a use of a pool, during some of whose calls somebody else does something; then looks at
/// what the end of the process and a loss of power leave.
fn meet(
    start: &FilesState,
    ring: u64,
    turns: Turns,
    seed: u64,
    uses: impl Fn(&mut User<'_>, &Other) + Sync,
) -> Result<usize, String> {
    let (files, clock) = (SimulatedFiles::new(start.clone()), SimulatedClock::default());
    let other = Arc::new(Other::new(turns));
    let passes = Arc::clone(&other);
    let sync = [0, 1_000_000][seed as usize % 2];
    let witness = Witness::of(&files, &clock, move |_, call| {
        passes.pass_turn();
        Duration::from_micros(if call == FileCall::Sync { sync } else { 10 })
    });
    let region = Arc::new(pool::map(&files, ring, &clock));
    pool::open(&region)?;
    let opened = files.state();
    witness.watch(&region);
    let mut user = User::new(&region, &clock, Contents::read(&region));
    let stored = Mutex::new(Stored::default());
    let body: Box<dyn FnOnce() + Send> = Box::new(|| {
        *other.user.lock().expect("no panic") = Some(std::thread::current().id());
        uses(&mut user, &other);
        other.has_ended.store(true, Relaxed);
    });
    let goes = || *stored.lock().expect("no panic") = other.go(&region);
    run_scheduled(seed, vec![body, Box::new(goes)]);
    let (image, Stored { after_process_end, after_power_loss, .. }) =
        (files.state(), stored.into_inner().expect("no panic"));
    let (events, said) = witness.end();
    if let Some(said) = user.said.first() {
        return Err(format!("it failed: {said}"));
    }
    order::follow(start, &events, false)?;
    let asked = ledger::follow(&opened, &events, &said, false)?;
    let required = user.required;
    let (dead, lost) = (image.after_process_end(), image.after_power_loss(|| false));
    check_image(dead.clone(), ring, &user.done, &required.after_process_end)?;
    check_image(lost.clone(), ring, &user.done, &required.after_power_loss)?;
    check_stored(dead, after_process_end).map_err(|what| format!("the process ends: {what}"))?;
    check_stored(lost, after_power_loss).map_err(|what| format!("the power is lost: {what}"))?;
    Ok(asked)
}

#[test]
fn whatever_somebody_else_does_during_a_call_nothing_is_lost_and_nothing_said_that_is_not_so() {
    let mut asked = 0;
    for seed in crate::seeds(0..1) {
        for start in starts::all(seed).iter().filter(|start| start.name != "an older format") {
            for phase in 0..PERIOD {
                let turns = Turns { phase, period: PERIOD, first: phase };
                let met = guarded(|| {
                    meet(&start.state, RING, turns, seed, |user, other| {
                        other.has_begun.store(true, Relaxed);
                        user.go(seed as usize + phase, 20);
                        user.close();
                    })
                });
                asked += met.unwrap_or_else(|what| {
                    panic!("{what}\nseed {seed}, {}, phase {phase}", start.name)
                });
            }
        }
    }
    assert!(asked > 5000, "{asked}");
}

/// Returns a ring of which so many blocks are in use, and which may become longer.
fn filled(ring: u64, blocks: u64) -> Start {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, ring, &clock);
    pool::open(&region).expect("a pool");
    files.fail_for_good(0, Counted::Allocations, ENOSPC);
    let mut user = User::new(&region, &clock, Contents::empty());
    for n in 0..blocks as usize {
        user.fence(0, n * 7, 20);
        user.acknowledge(SyncPolicy::Always);
    }
    let User { done, .. } = user;
    let state = files.state().after_process_end();
    Start { name: "a ring in use", state, done, required: Required::default() }
}

#[test]
fn a_ring_that_grows_while_others_write_at_the_end_of_its_lap_keeps_all() {
    const LONG: [u64; 2] = [256 << 10, 100 << 10];
    for seed in crate::seeds(0..1) {
        for (most, blocks) in LONG.into_iter().flat_map(|most| (3..16).map(move |n| (most, n))) {
            let start = filled(most, blocks);
            for phase in 0..PERIOD {
                let turns = Turns { phase, period: PERIOD, first: phase };
                let met = guarded(|| {
                    meet(&start.state, most, turns, seed, |user, other| {
                        other.has_begun.store(true, Relaxed);
                        let (_, mut applies) = user.region.background_steps().expect("a journal");
                        for n in 0..6 {
                            applies.look(user.region).expect("no failure");
                            user.fence(n % 3, n, 60);
                            user.acknowledge(SyncPolicy::No);
                        }
                    })
                });
                met.unwrap_or_else(|what| {
                    panic!("{what}\nseed {seed}, up to {most}, {blocks} blocks, phase {phase}")
                });
            }
        }
    }
}

#[test]
fn whatever_somebody_else_does_during_a_call_of_the_end_is_in_the_pool() {
    // What does not wait for the journal's locks.
    const DONE: [Do; 4] = [Do::Fence, Do::FenceLong, Do::Write, Do::Sync];
    let start = &starts::all(0)[0];
    for (first, what) in ALL.iter().enumerate().filter(|(_, what)| DONE.contains(what)) {
        for phase in 0.. {
            let turns = Turns { phase, period: usize::MAX, first };
            let calls = AtomicUsize::new(0);
            let met = guarded(|| {
                meet(&start.state, RING, turns, phase as u64, |user, other| {
                    user.go(phase, 4);
                    other.has_begun.store(true, Relaxed);
                    user.close();
                    calls.store(other.calls.load(Relaxed), Relaxed);
                })
            });
            met.unwrap_or_else(|error| panic!("{error}\n{what:?} in call {phase}"));
            if calls.into_inner() <= phase {
                assert!(phase > 10, "{phase} calls");
                break;
            }
        }
    }
}
