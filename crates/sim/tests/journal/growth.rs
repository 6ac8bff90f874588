//! A ring grows as it fills, in the first lap, in later ones and when it is empty; and stays as it
//! is while its disk has no space for more.

use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::{Contents, WRITERS};
use crate::overlap::pool;
use crate::uses::User;
use pmem::SyncPolicy;
use sim::{Counted, FilesState, SimulatedClock, SimulatedFiles};
use std::time::Duration;

const SHORT: u64 = 64 << 10;
/// A whole number of short rings, and one that is not.
const LONG: [u64; 2] = [256 << 10, 100 << 10];
const ENOSPC: i32 = 28;

/// Checks what the end of the process and a power loss leave of what a user did, also for somebody
/// who asks for another size.
fn check(files: &SimulatedFiles, user: &User<'_>) -> Result<(), String> {
    for ring in [SHORT, LONG[0], LONG[1]] {
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
        write(&mut user, SHORT / 2, |user| images.push(check(&files, user)));
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
