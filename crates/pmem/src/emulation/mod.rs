//! A slower medium, emulated on memory as fast as DRAM, so that its read penalty, and measures
//! against it, can be studied on a machine without it.
//!
//! Only in a build with the feature `emulate-media`; any other build has nothing of this, neither a
//! branch nor a field.
//!
//! - A *read* is charged for each line that a simulated last-level cache ([`tags`]) does not hold:
//!   a dependent access costs the medium's latency; the lines that follow in the same range are
//!   loaded meanwhile, as by hardware prefetch and line-fill buffers. A prefetched line costs only
//!   its share of the bandwidth.
//! - A *write* is charged when it leaves the caches: for each line that is flushed or streamed. The
//!   first after a fence costs the time that a line takes to the persistence domain, and all of
//!   them go through a bucket that drains at the medium's write bandwidth, in blocks of the
//!   medium's own size.
//! - The time that DRAM takes in the study from which the numbers come is subtracted, since the
//!   emulating memory takes that by itself ([`model`]); so is the time of the emulation itself. The
//!   rest is spent spinning.
//!
//! Everything that reports a figure must say that it was measured here: [`Emulation::summary`].

mod model;
mod spin;
mod tags;

pub use model::{Media, Model};

use crate::domain::Domain;
use crate::lines::{LINE, lines};
use crate::region::Region;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tags::Tags;

/// What the calling thread was charged for, in lines, since it started; subtract two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Reads that waited for the medium.
    pub random: u64,
    /// Reads that followed another in the same range.
    pub following: u64,
    /// Prefetches that went to the medium.
    pub prefetched: u64,
    /// Reads that hit the simulated cache.
    pub cached: u64,
    /// Lines written to the medium.
    pub written: u64,
}

impl Charged {
    /// Returns the charges between `earlier` and this reading.
    pub fn since(&self, earlier: &Charged) -> Charged {
        Charged {
            random: self.random - earlier.random,
            following: self.following - earlier.following,
            prefetched: self.prefetched - earlier.prefetched,
            cached: self.cached - earlier.cached,
            written: self.written - earlier.written,
        }
    }

    /// Returns the number of lines that were read from the medium.
    pub fn read(&self) -> u64 {
        self.random + self.following + self.prefetched
    }
}

thread_local! {
    static CHARGED: Cell<Charged> = const { Cell::new(Charged {
        random: 0, following: 0, prefetched: 0, cached: 0, written: 0,
    }) };
    /// Whether the thread has flushed a line since its last fence.
    static FLUSHED: Cell<bool> = const { Cell::new(false) };
    /// The block of the medium that the thread wrote last.
    static LAST_BLOCK: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Returns the charges of the calling thread.
pub fn charged() -> Charged {
    CHARGED.get()
}

fn count(change: impl FnOnce(&mut Charged)) {
    let mut charged = CHARGED.get();
    change(&mut charged);
    CHARGED.set(charged);
}

/// An emulated medium.
pub struct Emulation {
    model: Model,
    /// Whether flushes are executed here, and take time themselves.
    flushes: bool,
    tags: Tags,
    /// When the medium will have written everything that it was given, in picoseconds of
    /// [`spin::now_ps`].
    drained: AtomicU64,
}

/// From this many bytes of a read on, the time of looking its lines up is worth measuring.
const FEW_LINES: usize = 256;
/// Bytes that the medium accepts before a writer has to wait: its own buffer.
const BUFFER: u64 = 16 << 10;

impl Emulation {
    /// Emulates `model` below a cache of `cache` bytes; 0 means as large as the machine's own.
    pub fn new(model: Model, cache: u64) -> Emulation {
        let cache = if cache > 0 { cache } else { tags::machine() };
        Emulation { model, flushes: false, tags: Tags::new(cache), drained: AtomicU64::new(0) }
    }

    /// Returns the medium's name.
    pub fn name(&self) -> &'static str {
        self.model.name
    }

    /// Describes for people what is emulated, and how.
    pub fn summary(&self) -> String {
        let Model { name, random_ns, sequential_ns, read_mb_s, write_ns, write_mb_s, .. } =
            self.model;
        format!(
            "{name}, emulated: random read {random_ns} ns, sequential {sequential_ns} ns, {read_mb_s} MB/s, write {write_ns} ns a \
             line, {write_mb_s} MB/s (0: as DRAM; what DRAM takes is subtracted), behind {} KiB of simulated cache",
            self.tags.bytes() >> 10
        )
    }

    fn read(&self, off: u64, len: usize) {
        // Reading the clock takes longer than looking a line up.
        let begin = (len > FEW_LINES).then(spin::begin);
        let (mut cached, mut random, mut following) = (0, 0, 0);
        let mut follows = false;
        for line in lines(off, len) {
            if self.tags.touch(line / LINE) {
                cached += 1;
                follows = false;
            } else if follows {
                following += 1;
            } else {
                random += 1;
                follows = true;
            }
        }
        count(|charged| {
            charged.cached += cached;
            charged.random += random;
            charged.following += following;
        });
        let charge = random * self.model.random_ps() + following * self.model.following_ps();
        if charge > 0 || begin.is_some() {
            spin::pay(begin.unwrap_or_else(spin::begin), charge);
        }
    }

    fn prefetch(&self, off: u64) {
        if !self.tags.touch(off / LINE) {
            count(|charged| charged.prefetched += 1);
            spin::pay(spin::begin(), self.model.read_line_ps());
        }
    }

    /// Records lines that were stored to: they are in the cache now.
    fn stored(&self, off: u64, len: usize) {
        lines(off, len).for_each(|line| _ = self.tags.touch(line / LINE));
    }

    /// Records lines on their way to the medium; `streamed` ones leave the cache.
    fn written(&self, off: u64, len: usize, streamed: bool) {
        let begin = spin::begin();
        let (mut ps, mut bytes, mut written) = (0, 0, 0);
        for line in lines(off, len) {
            written += 1;
            if streamed {
                self.tags.drop_line(line / LINE);
            }
            if !FLUSHED.replace(true) {
                ps += self.model.write_ps(self.flushes);
            }
            if LAST_BLOCK.replace(line / self.model.block) != line / self.model.block {
                bytes += self.model.block;
            }
        }
        count(|charged| charged.written += written);
        spin::pay(begin, ps + self.queue(bytes));
    }

    fn fenced(&self) {
        FLUSHED.set(false);
    }

    /// Puts bytes into the medium's queue; returns the picoseconds until there is space for them.
    fn queue(&self, bytes: u64) -> u64 {
        if self.model.write_mb_s == 0 {
            return 0;
        }
        let (now, per_byte) = (spin::now_ps(), 1_000_000 / self.model.write_mb_s);
        let add = |drained: u64| Some(drained.max(now) + bytes * per_byte);
        let before = self.drained.fetch_update(Relaxed, Relaxed, add).unwrap_or(now);
        (before.max(now) + bytes * per_byte).saturating_sub(now + BUFFER * per_byte)
    }
}

impl fmt::Debug for Emulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulation").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Region {
    /// Returns this region, as if it were on a slower medium.
    pub fn emulating(mut self, mut emulation: Emulation) -> Region {
        emulation.flushes = self.domain == Domain::Clwb;
        self.emulation = Some(Box::new(emulation));
        self
    }

    /// Returns the emulated medium.
    pub fn emulation(&self) -> Option<&Emulation> {
        self.emulation.as_deref()
    }

    /// Returns the emulated medium, unless it is as fast as memory.
    #[inline]
    fn charging(&self) -> Option<&Emulation> {
        self.emulation().filter(|emulation| !emulation.model.is_dram)
    }

    #[inline]
    pub(crate) fn charge_read(&self, off: u64, len: usize) {
        if let Some(emulation) = self.charging() {
            emulation.read(off, len);
        }
    }

    #[inline]
    pub(crate) fn charge_prefetch(&self, off: u64) {
        if let Some(emulation) = self.charging() {
            emulation.prefetch(off);
        }
    }

    #[inline]
    pub(crate) fn charge_store(&self, off: u64, len: usize) {
        if let Some(emulation) = self.charging() {
            emulation.stored(off, len);
        }
    }

    #[inline]
    pub(crate) fn charge_flush(&self, off: u64, len: usize) {
        if let Some(emulation) = self.charging() {
            emulation.written(off, len, false);
        }
    }

    #[inline]
    pub(crate) fn charge_stream(&self, off: u64, len: usize) {
        if let Some(emulation) = self.charging() {
            emulation.written(off, len, true);
        }
    }

    #[inline]
    pub(crate) fn charge_fence(&self) {
        if let Some(emulation) = self.charging() {
            emulation.fenced();
        }
    }
}
