//! Flipped bits: what they hit is told, or costs nothing. Never is anything else served as if nothing had happened.
//!
//! A bit of one copy of the header costs nothing. A bit of the log is told when the pool is opened, or lies in what
//! is not needed any more. A bit of a string is found by a check.

use super::Commands;
use super::state::State;
use pmem::{NullRecorder, Region};
use sim::Workload;
use std::sync::Arc;

const FLIPS: usize = 12;
/// Where the copies of the header lie, and how long they are.
const HEADERS: [usize; 2] = [0, 4096];
const HEADER: usize = 192;
/// Where the rings lie: behind the shards' areas.
const SHARDS_AT: usize = 12288;
const SHARD_AREA: usize = 2048;

/// What a flipped bit may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Nothing,
    Told,
}

pub(crate) fn flip_bits(
    commands: &Commands,
    image: &[u8],
    state: &State,
    rng: &mut fastrand::Rng,
) -> Result<u64, String> {
    let geometry = commands.geometry;
    let rings = (SHARDS_AT + geometry.shards * SHARD_AREA).next_multiple_of(4096);
    let mut places = Vec::new();
    for _ in 0..FLIPS {
        places.push((HEADERS[rng.usize(..2)] + rng.usize(..HEADER), Cost::Nothing));
        let in_rings = rng.usize(..geometry.shards * geometry.ring_parts * geometry.ring_part);
        places.push((rings + in_rings, Cost::Told));
    }
    let long = state.live(state.now).map(|(_, (value, _))| value).filter(|value| value.len() > 40);
    for value in long.take(3) {
        // Wherever a copy of its begin lies: one of them is the value.
        let start = &value[..32];
        let mut copies = image.windows(32).enumerate().filter(|(_, bytes)| *bytes == start);
        places.extend(copies.by_ref().take(3).map(|(at, _)| (at + rng.usize(..32), Cost::Told)));
    }
    let mut image = image.to_vec();
    for &(at, cost) in &places {
        let bit = 1 << rng.u8(..8);
        image[at] ^= bit;
        look(commands, &image, state, cost)
            .map_err(|what| format!("bit {bit:#x} at {at:#x} flipped: {what}"))?;
        image[at] ^= bit;
    }
    Ok(places.len() as u64)
}

fn look(commands: &Commands, image: &[u8], state: &State, cost: Cost) -> Result<(), String> {
    let region = Region::simulated_from(image, commands.reserve(), Arc::new(NullRecorder));
    let read = commands.open(region).and_then(|mut keyspace| commands.read(&mut keyspace));
    match read {
        Err(_) if cost == Cost::Told => Ok(()),
        Err(what) => Err(what),
        Ok(found) => match commands.settle(&found, state) {
            Some(_) => Ok(()),
            None => Err(commands.difference(&found, std::slice::from_ref(state))),
        },
    }
}
