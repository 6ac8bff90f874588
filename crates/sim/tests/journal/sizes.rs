//! Sizes at each constant: batches of the maximum length, a line less and a line more, that begin
//! at each block of rings of several lengths, so that each goes around the end in every way.

use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::{Contents, WRITERS};
use crate::overlap::pool;
use crate::uses::User;
use pmem::SyncPolicy;
use sim::{SimulatedClock, SimulatedFiles};
use std::time::Duration;

const BLOCK: u64 = 4096;
/// The smallest ring, one whose size is not a power of two, and one with longer batches.
const RINGS: [u64; 3] = [16 * BLOCK, 17 * BLOCK, 32 * BLOCK];
/// The number of lines of a fence that nearly fill one block, in addition to the batch header, two
/// ranges and a word of the shared line. A batch that a fence is cut for is full.
const FILL_BLOCK: usize = 62;

/// A way to write around a ring.
#[derive(Clone, Copy, Debug)]
struct Way {
    ring: u64,
    /// The number of blocks in use before it begins.
    shift: u64,
    /// The number of lines of each fence.
    lines: usize,
    /// The number of fences for each acknowledgement.
    fences: usize,
    policy: SyncPolicy,
}

/// Returns the number of lines that nearly fill the longest batch.
fn fill_batch(ring: u64) -> usize {
    let longest = ring / 8 / BLOCK * BLOCK;
    ((longest - 64 - 16 - 8) / 64) as usize
}

fn write_around(way: Way) -> Result<usize, String> {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, way.ring, &clock);
    pool::open(&region)?;
    let mut user = User::new(&region, &clock, Contents::empty());
    for n in 0..way.shift {
        user.fence(0, n as usize, 1);
        user.acknowledge(SyncPolicy::Always);
    }
    let mut images = 0;
    let written = || region.journal_counts().map_or(0, |counts| counts.bytes_written);
    let (end, mut n) = (written() + 2 * way.ring, 0);
    while written() < end {
        n += 1;
        let acknowledged = n % way.fences == 0;
        if !user.fence(n % WRITERS, n * 31, way.lines) {
            return Err(format!("it failed: {:?}", user.said));
        }
        if acknowledged {
            user.acknowledge(way.policy);
        }
        if acknowledged && n % 5 == 0 {
            images += 2;
            let (done, required) = (&user.done, &user.required);
            let dead = files.state().after_process_end();
            check_image(dead, way.ring, done, &required.after_process_end)?;
            let lost = files.state().after_power_loss(|| false);
            check_image(lost, way.ring, done, &required.after_power_loss)?;
        }
        if n > 10_000 {
            return Err("the ring does not fill".into());
        }
    }
    user.close();
    let (done, ended) = (&user.done, user.ended());
    let whole = check_image(files.state().after_power_loss(|| false), way.ring, done, &ended)?;
    match (user.said.first(), whole == ended) {
        (Some(said), _) => Err(format!("it failed: {said}")),
        (None, false) => Err(format!("a closed pool holds {whole:?} of {ended:?}")),
        (None, true) => Ok(images),
    }
}

#[test]
fn batches_of_each_size_come_around_the_end_of_a_ring_in_each_way() {
    let mut images = 0;
    for seed in crate::seeds(0..1) {
        let mut rng = fastrand::Rng::with_seed(seed);
        for ring in RINGS {
            let fill = fill_batch(ring);
            let near = |n: usize| [n - 1, n, n + 1];
            let sizes = [near(FILL_BLOCK), near(fill), [1, fill + FILL_BLOCK, 299]].concat();
            for lines in sizes.into_iter().filter(|lines| *lines < 300) {
                for shift in 0..ring / BLOCK {
                    if rng.usize(..4) > 0 {
                        continue;
                    }
                    let policy = [SyncPolicy::Always, SyncPolicy::No][rng.usize(..2)];
                    let policy = if lines == 1 { SyncPolicy::Always } else { policy };
                    let fences = [1, 1, 2, 5][rng.usize(..4)];
                    let way = Way { ring, shift, lines, fences, policy };
                    images += guarded(|| write_around(way))
                        .unwrap_or_else(|what| panic!("{what}\nseed {seed}, {way:?}"));
                }
            }
        }
    }
    println!("{images} images");
    assert!(images > 300, "{images}");
}

#[test]
fn a_sync_is_late_when_the_oldest_write_is_two_seconds_old_and_not_before() {
    const LATE: Duration = Duration::from_secs(2);
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, RINGS[0], &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let mut is_synced_after = |time| {
        clock.pass(time);
        user.fence(0, 0, 1);
        user.acknowledge(SyncPolicy::EverySecond);
        region.synced() == region.appended()
    };
    let nanosecond = Duration::from_nanos(1);
    for _ in 0..3 {
        // The first write counts, and what comes after a sync has its own two seconds.
        let found = [Duration::ZERO, LATE / 2, LATE / 2 - nanosecond, nanosecond];
        assert_eq!(found.map(&mut is_synced_after), [false, false, false, true]);
    }
    assert_eq!(user.said, [""; 0]);
}
