//! Every failing call, by its number: a pool is opened, used and closed, and the n-th call of its
//! two files fails, for every n, once and permanently. A failing write of more than a sector has
//! written a half.
//!
//! The failure is reported. After it nothing more is asked of the files. What was acknowledged is
//! there, as its policy promises, when the process then ends, and when the power is lost. The next
//! start works, and its content can be used.

use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::Contents;
use crate::overlap::pool;
use crate::overlap::threads::{Done, Required};
use crate::starts::{self, Start};
use crate::uses::{RING, User};
use sim::{Counted, FilesState, Named, SimulatedClock, SimulatedFiles};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// A part of the error of a journal without space.
const NO_SPACE: &str = "no space for the pool's journal";

/// The call that fails.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// The number of calls before it.
    calls: u64,
    errno: i32,
    for_good: bool,
}

/// What was done until the process ended, and what is promised.
struct Left {
    state: FilesState,
    done: Done,
    required: Required,
}

/// Opens a pool, uses it and closes it, while a call fails; returns `None` if the call is never
/// made.
fn fail(start: &Start, fault: Fault, policy: usize) -> Result<Option<Left>, String> {
    let (files, clock) = (SimulatedFiles::new(start.state.clone()), SimulatedClock::default());
    let region = pool::map(&files, RING, &clock);
    let Fault { calls, errno, for_good } = fault;
    match for_good {
        true => files.fail_for_good(calls, Counted::All, errno),
        false => files.fail_with(calls, Counted::All, errno),
    }
    let opened = guarded(|| pool::open(&region));
    let (done, required, said) = match opened {
        Err(what) if what.starts_with("a panic") => return Err(what),
        Err(what) => (start.done.clone(), start.required, vec![what]),
        Ok(()) => {
            let found = Contents::read(&region);
            start.done.history.check(&found, &start.required.after_process_end)?;
            let mut user = User::new(&region, &clock, found);
            guarded(|| {
                user.go(policy, 14);
                user.close();
                Ok(())
            })?;
            (user.done, user.required, user.said)
        }
    };
    match (files.failed(), said.first()) {
        (0, None) => return Ok(None),
        (0, Some(said)) => return Err(format!("it fails by itself: {said}")),
        _ => {}
    }
    // A file that is opened is asked to have its space: it may do without.
    let failed = files.failed() - files.refused();
    if failed > 0 && said.is_empty() {
        return Err("nobody reports the failure".into());
    }
    // A refused growth only fails itself; a file that gets no space is truncated again.
    let is_forgiven = |said: &&String| said.contains("cannot grow") || said.contains(NO_SPACE);
    let forgiven = said.iter().filter(is_forgiven).count();
    if failed > 1 + forgiven {
        return Err(format!("{} more calls after: {said:?}", failed - 1));
    }
    let state = files.state();
    Ok(Some(Left { state, done, required }))
}

/// Examines what a failure leaves.
fn look(left: &Left, nth: usize) -> Result<usize, String> {
    let mut rng = fastrand::Rng::with_seed(nth as u64);
    let Left { state, done, required } = left;
    let Required { after_process_end, after_power_loss } = *required;
    let images = [
        ("the process ends", state.after_process_end(), after_process_end),
        ("nothing arrives", state.after_power_loss(|| false), after_power_loss),
        ("everything arrives", state.after_power_loss(|| true), after_power_loss),
        ("half arrives", state.after_power_loss(|| rng.bool()), after_power_loss),
    ];
    for (n, (way, image, required)) in images.into_iter().enumerate() {
        if n == nth % 4 {
            go_on(image.clone(), nth).map_err(|what| format!("{what}\nit goes on: {way}"))?;
        }
        check_image(image, RING, done, &required).map_err(|what| format!("{what}\n{way}"))?;
    }
    Ok(5)
}

/// Opens what was left, uses it, and loses the power.
fn go_on(image: FilesState, policy: usize) -> Result<(), String> {
    let (files, clock) = (SimulatedFiles::new(image), SimulatedClock::default());
    let region = pool::map(&files, RING, &clock);
    guarded(|| pool::open(&region)).map_err(|error| format!("it does not open: {error}"))?;
    let found = Contents::read(&region);
    let mut user = User::new(&region, &clock, found);
    guarded(|| {
        user.go(policy, 4);
        Ok(())
    })?;
    match user.said.first() {
        Some(said) => Err(format!("it cannot be used: {said}")),
        None => {
            let image = files.state().after_power_loss(|| false);
            check_image(image, RING, &user.done, &user.required.after_power_loss).map(drop)
        }
    }
}

/// Makes each call fail, one after the other, until there are no more.
fn fail_each(start: &Start, seed: u64) -> Result<(u64, usize), String> {
    let mut images = 0;
    for calls in 0..10_000 {
        for for_good in [false, true] {
            let errno = if (calls + seed) % 2 == u64::from(for_good) { EIO } else { ENOSPC };
            let fault = Fault { calls, errno, for_good };
            let what = |what| format!("{what}\nseed {seed}, {}, {fault:?}", start.name);
            let Some(left) = fail(start, fault, seed as usize).map_err(what)? else {
                return Ok((calls, images));
            };
            images += look(&left, (calls + seed) as usize).map_err(what)?;
        }
    }
    Err("it makes calls without end".into())
}

#[test]
fn whichever_call_fails_it_is_reported_and_nothing_is_lost() {
    for seed in crate::seeds(0..2) {
        for start in starts::all(seed) {
            let (calls, images) = fail_each(&start, seed).unwrap_or_else(|what| panic!("{what}"));
            println!("seed {seed}, {}: {calls} calls, {images} images", start.name);
            assert!(calls > 50, "{calls} calls");
        }
    }
}

/// Returns the error of starting a new pool when a call fails, and the length of the journal that
/// is left; `None` if the call is not made.
fn refused(calls: u64, errno: i32) -> Option<(String, u64)> {
    let files = SimulatedFiles::default();
    let region = pool::map(&files, RING, &SimulatedClock::default());
    files.fail_with(calls, Counted::Changing, errno);
    let said = guarded(|| pool::open(&region)).err();
    let len = files.storage(Named::Journal).size().expect("no call that fails");
    said.map(|said| (said, len))
}

#[test]
fn a_journal_that_gets_no_space_says_so_and_keeps_none_and_other_failures_say_what_they_are() {
    const EDQUOT: i32 = 122;
    const EFBIG: i32 = 27;
    let said = |errno| {
        let all: Vec<_> = (0..).map_while(|calls| refused(calls, errno)).collect();
        let no_space: Vec<u64> =
            all.iter().filter(|(said, _)| said.contains(NO_SPACE)).map(|(_, len)| *len).collect();
        (all.len(), no_space)
    };
    let (calls, none) = said(EIO);
    assert_eq!(none, []);
    for errno in [ENOSPC, EDQUOT, EFBIG] {
        // The space, and the zeros that are written to it.
        assert_eq!(said(errno), (calls, vec![0; 2]), "{errno}");
    }
}
