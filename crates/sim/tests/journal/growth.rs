//! A ring grows as it fills, in the first lap, in later ones and when it is empty; and stays as it
//! is while its disk has no space for more.

use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::{Contents, WRITERS};
use crate::overlap::pool;
use crate::uses::User;
use pmem::SyncPolicy;
use sim::{Counted, FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles};
use std::time::Duration;

const SHORT: u64 = 64 << 10;
/// A whole number of short rings, and one that is not.
const LONG: [u64; 2] = [256 << 10, 100 << 10];
const ASKED: [u64; 3] = [SHORT, LONG[0], LONG[1]];
const RING_AT: u64 = 8192;
const EIO: i32 = 5;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Checks what the end of the process and a power loss leave of what a user did, also for somebody
/// who asks for another size.
fn check(files: &SimulatedFiles, user: &User<'_>) -> Result<(), String> {
    check_for(files, user, &ASKED)
}

/// Checks it for somebody who asks for one of these sizes.
fn check_for(files: &SimulatedFiles, user: &User<'_>, rings: &[u64]) -> Result<(), String> {
    for ring in rings.iter().copied() {
        let look = |image: FilesState, required| check_image(image, ring, &user.done, required);
        look(files.state().after_process_end(), &user.required.after_process_end)?;
        look(files.state().after_power_loss(|| false), &user.required.after_power_loss)?;
    }
    match user.said.first() {
        Some(said) => Err(format!("it failed: {said}")),
        None => Ok(()),
    }
}

/// Writes until this many bytes more are in the ring, then lets the background look.
fn write(user: &mut User<'_>, bytes: u64, mut each: impl FnMut(&User<'_>)) {
    let written = |user: &User<'_>| user.region.journal_counts().map_or(0, |all| all.bytes_written);
    let end = written(user) + bytes;
    let mut n = 0;
    while written(user) < end {
        n += 1;
        assert!(user.fence(n % WRITERS, n * 31, 1 + n % 90), "{:?}", user.said);
        user.acknowledge([SyncPolicy::Always, SyncPolicy::No][n / 3 % 2]);
        each(user);
    }
}

fn capacity(user: &User<'_>) -> u64 {
    user.region.journal_counts().map_or(0, |counts| counts.capacity)
}

/// Fills a ring that gets no space for this many of its own lengths, and then gets it: after a
/// pause, or at once.
fn grow_late(most: u64, laps: u64, shift: u64, rests: bool) -> Result<(), String> {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, most, &clock);
    pool::open(&region)?;
    let mut user = User::new(&region, &clock, Contents::empty());
    if capacity(&user) != SHORT {
        return Err(format!("a new ring has {} bytes", capacity(&user)));
    }
    files.fail_for_good(0, Counted::Allocations, ENOSPC);
    write(&mut user, laps * SHORT + shift * 4096, |_| {});
    check(&files, &user)?;
    let expected = if laps > 0 { SHORT } else { capacity(&user) };
    if capacity(&user) != expected {
        return Err("it grew without space".into());
    }
    let files = SimulatedFiles::new(files.state());
    let _ = region;
    let region = pool::map(&files, most, &clock);
    pool::open(&region)?;
    let mut user = User::new(&region, &clock, Contents::read(&region));
    let (_, mut applies) = region.background_steps().ok_or("no journal")?;
    for n in 0..4 {
        let mut images = Vec::new();
        write(&mut user, SHORT / 2, |user| {
            let asked = images.len() % ASKED.len();
            images.push(check_for(&files, user, &ASKED[asked..=asked]));
        });
        images.into_iter().collect::<Result<(), _>>()?;
        let looked = (0..1 + 2 * u8::from(rests)).try_for_each(|_| {
            clock.pass(Duration::from_secs(1));
            applies.look(&region)
        });
        looked.map_err(|error| error.to_string())?;
        check(&files, &user).map_err(|what| format!("{what}\nafter look {n}"))?;
    }
    if capacity(&user) != most {
        return Err(format!("{} bytes did not become {most}", capacity(&user)));
    }
    user.close();
    check(&files, &user)
}

#[test]
fn a_ring_grows_in_any_lap_once_it_has_space() {
    for (most, laps) in LONG.into_iter().flat_map(|most| (0..5).map(move |laps| (most, laps))) {
        for (shift, rests) in [0, 3, 9, 15].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            guarded(|| grow_late(most, laps, shift, rests)).unwrap_or_else(|what| {
                panic!("{what}\nup to {most} bytes, {laps} laps and {shift} blocks, {rests}")
            });
        }
    }
}

/// A journal at rest lowers its limit, but not if its file was cut meanwhile: it is not used again.
#[test]
fn the_limit_of_a_ring_that_was_cut_is_not_lowered() {
    for is_cut in [false, true] {
        let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
        let region = pool::map(&files, SHORT, &clock);
        pool::open(&region).expect("a pool");
        let mut user = User::new(&region, &clock, Contents::empty());
        let (_, mut applies) = region.background_steps().expect("a journal");
        write(&mut user, SHORT / 2, |_| {});
        let mut look = || {
            clock.pass(Duration::from_secs(1));
            applies.look(&region).expect("a journal");
        };
        look();
        region.checkpoint().expect("applied");
        if is_cut {
            files.storage(Named::Journal).cut(RING_AT + SHORT / 2).expect("a shorter file");
        }
        files.take_events();
        look();
        let is_write = |event: &FileEvent| matches!(event, FileEvent::Write(Named::Journal, ..));
        assert_eq!(files.take_events().iter().any(is_write), !is_cut, "{is_cut}");
    }
}

#[test]
fn a_growth_without_space_is_tried_again_after_a_while() {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, LONG[0], &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let (_, mut applies) = region.background_steps().expect("a journal");
    // All of it, and half of it.
    (0..2).for_each(|_| files.fail_with(0, Counted::Allocations, ENOSPC));
    write(&mut user, SHORT / 2, |_| {});
    applies.look(&region).expect("no failure");
    assert_eq!((capacity(&user), files.failed()), (SHORT, 2));
    write(&mut user, 2 * SHORT, |_| {});
    applies.look(&region).expect("no failure");
    assert_eq!(capacity(&user), SHORT, "it is not tried at each write");
    clock.pass(Duration::from_secs(11));
    for _ in 0..3 {
        clock.pass(Duration::from_secs(1));
        applies.look(&region).expect("no failure");
    }
    assert_eq!((capacity(&user), files.failed()), (LONG[0], 2));
    check(&files, &user).expect("all of it");
}

#[test]
fn a_ring_that_was_applied_before_its_disk_has_space_does_not_grow() {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, LONG[0], &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let (_, mut applies) = region.background_steps().expect("a journal");
    (0..2).for_each(|_| files.fail_with(0, Counted::Allocations, ENOSPC));
    write(&mut user, SHORT / 2, |_| {});
    applies.look(&region).expect("no failure");
    assert_eq!(files.failed(), 2);
    region.checkpoint().expect("applied");
    clock.pass(Duration::from_secs(11));
    applies.look(&region).expect("no failure");
    assert_eq!(capacity(&user), SHORT);
    check(&files, &user).expect("all of it");
}

/// Fills half of a new ring, before `prepare`, and lets the background look. Returns the files,
/// what the look returned, and the length of the ring.
fn grow_after(prepare: impl Fn(&SimulatedFiles)) -> (SimulatedFiles, Result<(), String>, u64) {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, LONG[0], &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let (_, mut applies) = region.background_steps().expect("a journal");
    write(&mut user, SHORT / 2, |_| {});
    prepare(&files);
    let looked = applies.look(&region).map_err(|error| error.to_string());
    let capacity = capacity(&user);
    (files, looked, capacity)
}

#[test]
fn a_ring_takes_at_most_half_of_what_its_disk_has_left() {
    for (left, expected) in [
        (3 * SHORT * 2, LONG[0]),
        (3 * SHORT * 2 - 1, LONG[0] / 2),
        (SHORT * 2, LONG[0] / 2),
        (SHORT * 2 - 1, SHORT),
        (0, SHORT),
    ] {
        let (_, looked, capacity) = grow_after(|files| files.leave(left));
        assert_eq!((looked, capacity), (Ok(()), expected), "{left} bytes are left");
    }
}

#[test]
fn a_journal_that_somebody_cut_short_does_not_become_longer() {
    let journal = |files: &SimulatedFiles| files.storage(Named::Journal);
    for len in [RING_AT + SHORT - 1, RING_AT + SHORT / 2, RING_AT, 0] {
        let (files, _, capacity) = grow_after(|files| journal(files).cut(len).expect("a cut"));
        let found = journal(&files).size().expect("a size");
        assert!(found < RING_AT + SHORT && capacity == SHORT, "{len}: {found}, {capacity}");
    }
    let (files, looked, capacity) =
        grow_after(|files| journal(files).cut(RING_AT + SHORT).expect("a cut"));
    assert_eq!((looked, capacity), (Ok(()), LONG[0]));
    assert_eq!(journal(&files).size().expect("a size"), RING_AT + LONG[0]);
}

#[test]
fn a_disk_that_fails_is_not_a_full_one() {
    for (calls, counted) in [(0, Counted::Allocations), (1, Counted::Changing)] {
        let (_, looked, capacity) = grow_after(|files| files.fail_with(calls, counted, EIO));
        let error = looked.expect_err("a failure");
        assert!(error.contains("Input/output error") && capacity == SHORT, "{error}");
    }
    for errno in [ENOSPC, EDQUOT, EFBIG] {
        let (_, looked, capacity) =
            grow_after(|files| files.fail_with(0, Counted::Allocations, errno));
        assert_eq!((looked, capacity), (Ok(()), LONG[0] / 2), "{errno}");
    }
    // The zeros find none, after the space was reserved.
    let (files, looked, capacity) =
        grow_after(|files| files.fail_with(1, Counted::Changing, ENOSPC));
    assert_eq!((looked, capacity, files.failed()), (Ok(()), LONG[0] / 2, 1));
}

/// A ring that grows in a later lap is written with zeros as far as its limit, as in the first lap.
#[test]
fn a_longer_ring_is_not_written_with_zeros_as_a_whole() {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, LONG[0], &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let (_, mut applies) = region.background_steps().expect("a journal");
    (0..2).for_each(|_| files.fail_with(0, Counted::Allocations, ENOSPC));
    write(&mut user, 2 * SHORT, |_| {});
    assert_eq!(capacity(&user), SHORT);
    files.take_events();
    for _ in 0..4 {
        clock.pass(Duration::from_secs(11));
        applies.look(&region).expect("no failure");
    }
    assert_eq!(capacity(&user), LONG[0]);
    let is_zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let zeros = files.take_events().into_iter().map(|event| match event {
        FileEvent::Write(Named::Journal, at, bytes) if at >= RING_AT && is_zeros(&bytes) => {
            bytes.len()
        }
        _ => 0,
    });
    let zeros = zeros.sum::<usize>();
    assert!(zeros <= LONG[0] as usize / 4, "{zeros} bytes of zeros");
    write(&mut user, 3 * LONG[0], |_| {});
    check(&files, &user).expect("all of it");
}

#[test]
fn a_ring_takes_half_of_the_space_that_its_disk_does_not_have() {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, LONG[0], &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let (_, mut applies) = region.background_steps().expect("a journal");
    files.fail_with(0, Counted::Allocations, ENOSPC);
    write(&mut user, SHORT / 2, |_| {});
    applies.look(&region).expect("no failure");
    assert_eq!(capacity(&user), LONG[0] / 2);
    write(&mut user, 2 * SHORT, |_| {});
    check(&files, &user).expect("all of it");
}
