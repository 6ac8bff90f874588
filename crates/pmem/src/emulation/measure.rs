//! What this machine's own memory takes, which an emulated medium need not be charged for.
//!
//! Measured once, at the start, on memory of its own, several times the cache's size, and the least of several runs is
//! taken: other programs can only make it slower.

use super::tags;
use crate::cpu;
use crate::lines::LINE;
use std::time::Instant;

/// Steps of one run.
const STEPS: usize = 50_000;
const RUNS: usize = 3;
/// The most memory to walk in.
const MOST: u64 = 256 << 20;

/// What memory takes here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// A read that depends on the one before, anywhere, in nanoseconds.
    pub(super) read_ns: u64,
    /// A line behind another, in picoseconds.
    pub(super) following_ps: u64,
    /// A store, its flush and the fence, in nanoseconds.
    pub(super) write_ns: u64,
}

#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; (LINE / 8) as usize]);

impl Own {
    pub(super) fn measure() -> Own {
        let count = ((4 * tags::machine()).min(MOST) / LINE) as usize;
        let mut memory = vec![Line([0; 8]); count];
        lead_around(&mut memory);
        let least = |run: &mut dyn FnMut() -> u64| (0..RUNS).map(|_| run()).min().unwrap_or(0);
        let mut at = 0;
        let read = least(&mut || {
            let begin = Instant::now();
            (0..STEPS).for_each(|_| at = memory[at].0[0] as usize);
            begin.elapsed().as_nanos() as u64 / STEPS as u64
        });
        let mut sum = std::hint::black_box(at) as u64;
        let following = least(&mut || {
            let begin = Instant::now();
            sum += memory.iter().take(STEPS).map(|line| line.0[1]).sum::<u64>();
            begin.elapsed().as_nanos() as u64 * 1000 / STEPS as u64
        });
        std::hint::black_box(sum);
        let write = least(&mut || flushes(&mut memory));
        Own { read_ns: read, following_ps: following, write_ns: write }
    }
}

/// Makes each line lead to another, all in one circle, in no order that a processor foresees.
fn lead_around(memory: &mut [Line]) {
    let count = memory.len();
    (0..count).for_each(|at| memory[at].0[0] = at as u64);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..count).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let other = (random % at as u64) as usize;
        let here = memory[at].0[0];
        memory[at].0[0] = memory[other].0[0];
        memory[other].0[0] = here;
    }
}

/// Nanoseconds of a store, its flush and the fence.
fn flushes(memory: &mut [Line]) -> u64 {
    let how = cpu::detect();
    let steps = STEPS / 10;
    let begin = Instant::now();
    for (n, line) in memory.iter_mut().take(steps).enumerate() {
        line.0[2] = n as u64;
        // SAFETY: the line is this element of the vector.
        unsafe { cpu::write_back(how, line.0.as_ptr().cast(), 1) };
        cpu::fence();
    }
    begin.elapsed().as_nanos() as u64 / steps as u64
}
