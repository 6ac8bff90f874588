//! Flipped bits: the damage is reported, or costs nothing. Nothing else is ever served as if
//! nothing had happened.
//!
//! A flipped bit in one copy of the header costs nothing. A flipped bit in a log or in its tail is
//! reported when the pool is opened, or is in a part that is no longer needed. A flipped bit in a
//! string is found by a check.
//!
//! Two things cannot be decided after a power loss: whether the newest record of a log was torn or
//! damaged, so that the previous state is acceptable; and a flipped bit that turns the tail's
//! number into that of the next record, as if the log were empty. So the lowest bits of a tail are
//! left alone.

use super::Commands;
use super::state::State;
use keyspace::{Content, StreamPart};
use pmem::{NullRecorder, Region};
use sim::{Left, Workload};
use std::sync::Arc;

const FLIPS: usize = 24;
/// The places of the copies of the header, and their length.
const HEADERS: [usize; 2] = [0, 4096];
const HEADER: usize = 192;
/// The place of the rings: after the shards' areas.
const SHARDS_AT: usize = 12288;
const SHARD_AREA: usize = 2048;

/// What a flipped bit may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Nothing,
    Reported,
}

pub(crate) fn flip_bits(
    commands: &Commands,
    left: &Left<'_, State>,
    rng: &mut fastrand::Rng,
) -> Result<u64, String> {
    let last = left.states[0];
    let mut everywhere = in_headers(rng);
    everywhere.extend(in_rings(commands, rng));
    everywhere.extend(in_tails(commands, rng));
    everywhere.extend(in_strings(left.everything, last, rng));
    let mut flips = flip(commands, left.everything, &everywhere, &[last], rng)?;
    flips += flip(commands, left.certain, &in_tails(commands, rng), &[last], rng)?;
    if commands.geometry.shards == 1 {
        let mut older = left.states.iter().filter(|state| !state.agrees(last, last.now));
        let before = older.next().map(|state| State { now: last.now, ..(*state).clone() });
        let allowed: Vec<&State> = [last].into_iter().chain(&before).collect();
        flips += flip(commands, left.certain, &in_rings(commands, rng), &allowed, rng)?;
    }
    Ok(flips)
}

fn in_headers(rng: &mut fastrand::Rng) -> Vec<(usize, Cost)> {
    (0..FLIPS).map(|n| (HEADERS[n % 2] + rng.usize(..HEADER), Cost::Nothing)).collect()
}

fn in_rings(commands: &Commands, rng: &mut fastrand::Rng) -> Vec<(usize, Cost)> {
    let geometry = commands.geometry;
    let rings = (SHARDS_AT + geometry.shards * SHARD_AREA).next_multiple_of(4096);
    let len = geometry.shards * geometry.ring_parts * geometry.ring_part;
    (0..3 * FLIPS).map(|_| (rings + rng.usize(..len), Cost::Reported)).collect()
}

fn in_tails(commands: &Commands, rng: &mut fastrand::Rng) -> Vec<(usize, Cost)> {
    let shards = commands.geometry.shards;
    let tail = |n: usize| SHARDS_AT + n % shards * SHARD_AREA;
    (0..FLIPS).map(|n| (tail(n) + rng.usize(1..8), Cost::Reported)).collect()
}

/// Returns places where a copy of a string's start is: one of them is the value.
fn in_strings(image: &[u8], state: &State, rng: &mut fastrand::Rng) -> Vec<(usize, Cost)> {
    let pieces = state.live(state.now).flat_map(|(_, (value, _))| match value {
        Content::String(value) => std::slice::from_ref(value),
        Content::Elements(_, elements) => elements.as_slice(),
        Content::Fields(_) => &[],
        Content::Stream(parts) => match parts.first() {
            Some(StreamPart::Entry(_, words)) => words.as_slice(),
            _ => &[][..],
        },
    });
    let mut places = Vec::new();
    for value in pieces.filter(|value| value.len() > 40).take(3) {
        let start = &value[..32];
        let copies = image.windows(32).enumerate().filter(|(_, bytes)| *bytes == start);
        places.extend(copies.take(3).map(|(at, _)| (at + rng.usize(..32), Cost::Reported)));
    }
    places
}

fn flip(
    commands: &Commands,
    image: &[u8],
    places: &[(usize, Cost)],
    allowed: &[&State],
    rng: &mut fastrand::Rng,
) -> Result<u64, String> {
    let mut image = image.to_vec();
    for &(at, cost) in places {
        let bit = 1 << rng.u8(..8);
        image[at] ^= bit;
        look(commands, &image, allowed, cost)
            .map_err(|what| format!("bit {bit:#x} at {at:#x} flipped: {what}"))?;
        image[at] ^= bit;
    }
    Ok(places.len() as u64)
}

fn look(commands: &Commands, image: &[u8], allowed: &[&State], cost: Cost) -> Result<(), String> {
    let region = Region::simulated_from(image, commands.reserve(), Arc::new(NullRecorder));
    let read = commands.open(region).and_then(|mut keyspace| commands.read(&mut keyspace));
    match read {
        Err(_) if cost == Cost::Reported => Ok(()),
        Err(what) => Err(what),
        Ok(found) if allowed.iter().any(|state| commands.accept(&found, state).is_some()) => Ok(()),
        Ok(found) => {
            let allowed: Vec<State> = allowed.iter().map(|state| (*state).clone()).collect();
            Err(commands.difference(&found, &allowed))
        }
    }
}
