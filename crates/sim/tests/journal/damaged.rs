//! Damage of a journal: a bit of each part of a superblock and of each batch is flipped, also when
//! the pool does not name its journal.
//!
//! What was synced is there, or the start is refused. A damaged batch is the end of the journal if
//! nothing says that it was synced: a power loss may have torn it.

use crate::order::{self, BLOCK, RING_AT};
use crate::overlap::crashes::{check_image, guarded};
use crate::overlap::model::Contents;
use crate::overlap::pool;
use crate::starts::{self, Start};
use crate::uses::{RING, User};
use pmem::SyncPolicy;
use sim::{FilesState, Named, SimulatedClock, SimulatedFiles};

/// Returns journals that hold batches: a part of them is acknowledged as durable.
fn held(seed: u64) -> Vec<Start> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, RING, &clock);
    pool::open(&region).expect("a pool");
    let mut user = User::new(&region, &clock, Contents::empty());
    let mut held = Vec::new();
    for n in 0..7 {
        user.fence(n % 3, n * 31, 1 + rng.usize(..40));
        user.acknowledge([SyncPolicy::Always, SyncPolicy::No][rng.usize(..2)]);
        let (done, required) = (user.done.clone(), user.required);
        let state = files.state().after_process_end();
        held.push(Start { name: "a journal that holds batches", state, done, required });
    }
    held.extend(starts::all(seed).into_iter().filter(|start| start.name == "a crash"));
    held
}

/// Returns files of which a bit of the journal is flipped, and whose pool names a journal or not.
fn flipped(state: &FilesState, at: &[u64], is_named: bool) -> FilesState {
    let files = SimulatedFiles::new(state.clone());
    let (pool, journal) = (files.storage(Named::Pool), files.storage(Named::Journal));
    for at in at {
        let mut byte = [0];
        journal.read_at(&mut byte, *at).expect("the journal");
        journal.write_at(&[byte[0] ^ 1], *at).expect("the journal");
    }
    if !is_named {
        pool.write_at(&[0; 8], 0).expect("the pool");
    }
    files.state().after_process_end()
}

/// Returns true if it opens; what it then contains is checked.
fn opens(image: FilesState, start: &Start, required: &[usize; 3]) -> Result<bool, String> {
    match check_image(image, RING, &start.done, required) {
        Ok(_) => Ok(true),
        Err(what) if what.starts_with("it does not open") => Ok(false),
        Err(what) => Err(what),
    }
}

/// Flips bits of the batch with this sequence number; returns how many images were examined.
fn damage(start: &Start, sequence: u64) -> Result<usize, String> {
    let (batches, synced, said) = order::found(&start.state);
    let batch = batches[&sequence];
    let named_by = |(of, other): (&u64, &order::Found)| match *of == sequence {
        true => 0,
        false => other.synced.min(*of),
    };
    let by_batches = batches.iter().map(named_by).max().unwrap_or(0).max(synced);
    let is_first = batches.range(..sequence).next().is_none();
    let parts = [0, 9, 12, 17, 25, 33, 41, 50, 65, 80, batch.len - 1];
    let mut images = 0;
    for (part, is_named) in parts.into_iter().flat_map(|part| [(part, true), (part, false)]) {
        let at = RING_AT + (batch.at + part) % RING;
        let image = flipped(&start.state, &[at], is_named);
        let shows = if is_named { by_batches.max(said) } else { by_batches };
        let expected = sequence >= shows && (is_named || is_first);
        let found = opens(image, start, &[0; 3]).map_err(|what| format!("{what}\nbyte {part}"))?;
        if found != expected {
            return Err(format!(
                "byte {part} of batch {sequence} of {batches:?}, {shows} synced, named: \
                 {is_named}: it opens: {found}"
            ));
        }
        images += 1;
    }
    Ok(images)
}

/// A copy of the superblock is enough, and none is not.
fn damage_superblocks(start: &Start) -> Result<(), String> {
    for byte in [0, 9, 13, 17, 33, 41, 49, 57, 65, 73, 81, 89, 97, 105, 113, 121] {
        for copies in [&[0][..], &[1], &[0, 1]] {
            let at: Vec<u64> = copies.iter().map(|copy| copy * BLOCK + byte).collect();
            let image = flipped(&start.state, &at, true);
            let whole = start.required.after_process_end;
            let found = opens(image, start, &whole)
                .map_err(|what| format!("{what}\nbyte {byte} of copies {copies:?}"))?;
            if found != (copies.len() == 1) {
                return Err(format!("byte {byte} of copies {copies:?}: it opens: {found}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_flipped_bit_costs_nothing_that_was_synced_or_refuses_the_start() {
    let mut images = 0;
    for seed in crate::seeds(0..4) {
        for start in held(seed) {
            let (batches, ..) = order::found(&start.state);
            let all = guarded(|| {
                damage_superblocks(&start)?;
                batches.keys().try_fold(0, |sum, sequence| Ok(sum + damage(&start, *sequence)?))
            });
            images += all.unwrap_or_else(|what| panic!("{what}\nseed {seed}, {}", start.name));
        }
    }
    assert!(images > 1000, "{images}");
}
