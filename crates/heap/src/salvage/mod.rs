//! Reading a pool that cannot be opened, for what is sound in it.
//!
//! [`Salvage::open`] takes a private copy of a pool's pages and refuses nothing that the rest of
//! the pool can stand without: a damaged header is put together again from both copies, else
//! guessed from the spans; a damaged log is applied as far as it is sound; of a span whose word in
//! the span table is lost, its own header says the class. What was damaged is listed as
//! [`SalvageNote`]s. What the bytes of a block mean, and whether they are sound, is the business of
//! the layer above, as always.
//!
//! Nothing is reserved, committed or written to the file: there is no log to write to. Bitmaps
//! decide nothing for a block that is reached, since what leads to it verifies what it finds there;
//! they tell blocks in use from freed ones where nothing leads to them any more
//! ([`Salvage::allocated`]).

#![allow(unsafe_code, reason = "published bytes are read")]

mod header;
mod log;
mod marks;
mod shapes;

pub use marks::Marks;

use crate::error::OpenError;
use crate::heap::Heap;
use crate::layout::{Geometry, ZONES_WORD};
use crate::losses;
use crate::ptr::{Ptr, View};
use pmem::Region;
use shapes::Shape;

/// Why nothing can be read from a pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// The region is not a private copy: what salvage changes would reach the file.
    #[error("a pool is salvaged from a private copy of its pages only")]
    NotPrivate,
    /// There is nothing in it.
    #[error("it is empty: no pool was made in it")]
    Blank,
    /// It is a pool for another program, or no pool.
    #[error("{0}")]
    Foreign(OpenError),
    /// The header is lost, and nothing else looks like a pool's.
    #[error("{0}; nothing in it looks like the spans of a pool either")]
    NoPool(OpenError),
}

/// Something of a pool that is not as it was left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageNote {
    /// No copy of the header was whole; what it said was found from both of them.
    #[error("both copies of the header are damaged; what they said was put together again")]
    HeaderMended,
    /// The header is lost; the sizes were found from the spans.
    #[error(
        "the header is lost; the pool's sizes were found from its spans. Its logs cannot be \
         judged without it: if the machine \
         went down while the pool was open, what was written last may be missing, or older"
    )]
    HeaderGuessed,
    /// Where the pool was left open, the machine may have lost what its caches held.
    #[error(
        "the pool was not closed before the machine went down, and its memory does not survive \
         that: values may be older than \
         what was acknowledged, or missing"
    )]
    OtherBoot,
    /// A shard's log is damaged.
    #[error(
        "{error}{}",
        if *costs { ": what was written last in this shard may be missing, or older" }
        else { ": costs nothing, since what it says is in place" }
    )]
    Log {
        /// What opening would say.
        error: OpenError,
        /// Whether what was acknowledged may be lost with it.
        costs: bool,
    },
    /// The file is shorter than the pool.
    #[error("the pool was cut short: expected at least {expected} bytes, found {found}")]
    Cut {
        /// Bytes that the pool had.
        expected: u64,
        /// Bytes of the file.
        found: u64,
        /// Whether all of a shard's roots may be behind the end.
        costs: bool,
    },
    /// The number of zones makes no sense; the file's length says it.
    #[error("the number of zones is {found}; the file holds {most}")]
    Zones {
        /// What the word says.
        found: u64,
        /// As many as there can be.
        most: u64,
    },
    /// Words of the span table disagree with their spans.
    #[error(
        "{count} spans, the first is number {first}: the span table does not say what they are"
    )]
    SpanTable {
        /// How many.
        count: u64,
        /// The first one.
        first: u32,
    },
    /// The store was stopped.
    #[error("the store was stopped earlier: {0}")]
    Stopped(String),
}

impl SalvageNote {
    /// Whether something that was acknowledged may be lost that nothing else names.
    pub fn costs(&self) -> bool {
        match self {
            SalvageNote::HeaderGuessed | SalvageNote::OtherBoot => true,
            SalvageNote::Log { costs, .. } | SalvageNote::Cut { costs, .. } => *costs,
            SalvageNote::HeaderMended
            | SalvageNote::Zones { .. }
            | SalvageNote::SpanTable { .. }
            | SalvageNote::Stopped(_) => false,
        }
    }
}

/// A pool that is read as far as it is sound.
#[derive(Debug)]
pub struct Salvage {
    region: Region,
    geometry: Geometry,
    seed: Option<[u8; 16]>,
    shapes: Vec<Shape>,
    notes: Vec<SalvageNote>,
}

impl Salvage {
    /// Reads what leads to everything else: header, logs, span table. `boot_id` is that of the
    /// machine's present boot.
    pub fn open(region: Region, boot_id: [u8; 16]) -> Result<Salvage, SalvageError> {
        if !region.is_private() {
            return Err(SalvageError::NotPrivate);
        }
        if region.is_empty() || Heap::is_blank(&region) {
            return Err(SalvageError::Blank);
        }
        // What was lost in an earlier incarnation is lost in this one too, though it can be read.
        losses::read(&region).into_iter().for_each(|page| {
            region.lose(page);
        });
        let mut notes = Vec::new();
        let found = header::find(&region, &mut notes)?;
        let geometry = found.geometry;
        if let Some(stop) = losses::stopped(&region) {
            notes.push(SalvageNote::Stopped(stop.why));
        }
        let zones = zones(&region, &geometry, &mut notes);
        if let Some(header) = &found.header {
            log::recover(&region, header, boot_id, &mut notes);
        }
        let shapes = shapes::read(&region, &geometry, zones, &mut notes);
        Ok(Salvage { region, geometry, seed: found.seed, shapes, notes })
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.geometry.shards
    }

    /// The sizes chosen when the pool was made.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The key of the hash that places keys, unless it is lost. Without a whole header it may be
    /// damaged: whether it leads to the keys is for the layer above to see.
    pub fn hash_seed(&self) -> Option<[u8; 16]> {
        self.seed
    }

    /// The memory below.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// What is not as it was left.
    pub fn notes(&self) -> &[SalvageNote] {
        &self.notes
    }

    /// Where root word `n` of a shard stands.
    pub fn root(&self, shard: usize, n: usize) -> Ptr {
        Ptr::from_raw(self.geometry.shard_area(shard).root(n))
    }

    /// Bytes in allocated blocks, as the shards counted them; no more than the file has.
    pub fn used(&self) -> u64 {
        let counted =
            (0..self.shards()).map(|s| self.region.load(self.geometry.shard_area(s).used()));
        counted.fold(0, u64::saturating_add).min(self.region.len())
    }

    /// How many bytes a block at `at` holds, allocated or not; 0 if none can begin there.
    pub fn capacity(&self, at: Ptr) -> usize {
        self.block(at).map_or(0, |(_, _, size)| size)
    }

    /// The span, the number and the size of the block that begins at `at`.
    fn block(&self, at: Ptr) -> Option<(u32, u32, usize)> {
        let span = self.geometry.span_of(at.raw())?;
        let inside = (at.raw() - self.geometry.span_at(span)) as u32;
        let (number, size) = self.shapes.get(span as usize)?.block(inside)?;
        Some((span, number, size))
    }

    /// The blocks whose bits say that they are in use, in the order of their places, with their
    /// sizes.
    pub fn allocated(&self) -> impl Iterator<Item = (Ptr, usize)> + '_ {
        self.shapes.iter().enumerate().flat_map(move |(span, shape)| {
            let base = self.geometry.span_at(span as u32);
            shape.allocated(&self.region, base).map(move |(at, size)| (Ptr::from_raw(at), size))
        })
    }
}

impl View for Salvage {
    fn word(&self, at: Ptr) -> u64 {
        self.region.load(at.raw())
    }

    fn line(&self, at: Ptr) -> [u64; 8] {
        self.region.line(at.raw())
    }

    fn tagged(&self, at: Ptr, tag: u16) -> u8 {
        self.region.tagged(at.raw(), tag)
    }

    fn bytes(&self, at: Ptr, len: usize) -> &[u8] {
        // SAFETY: after `open` nobody writes to the region, which is private to this process.
        unsafe { self.region.bytes(at.raw(), len) }
    }

    fn prefetch(&self, at: Ptr) {
        self.region.prefetch(at.raw());
    }
}

/// How many zones there are, the last one perhaps not as a whole.
fn zones(region: &Region, geometry: &Geometry, notes: &mut Vec<SalvageNote>) -> u64 {
    let (said, found) = (region.load(ZONES_WORD), region.len());
    let most = found.saturating_sub(geometry.zones_at()).div_ceil(geometry.zone_bytes());
    let expected = geometry.zones_at().saturating_add(said.saturating_mul(geometry.zone_bytes()));
    if (1..=1 << 32).contains(&said) && expected > found {
        let costs = found < geometry.zones_at();
        notes.push(SalvageNote::Cut { expected, found, costs });
    } else if said == 0 || expected > found {
        notes.push(SalvageNote::Zones { found: said, most });
    }
    // What was grown and not published is zeros: spans that are free.
    most
}
