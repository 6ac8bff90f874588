//! A pool that is read as far as it is sound.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::note::{SalvageError, SalvageNote};
use super::shapes::{self, Shape};
use super::{header, log};
use crate::layout::header::is_blank;
use crate::layout::{Geometry, JOURNAL_PROGRESS, ZONES_WORD};
use crate::media_errors::losses;
use crate::ptr::{Ptr, View};
use pmem::{JournalId, Region};

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
    /// Reads what leads to everything else: journal, header, logs, span table. `boot_id` is the
    /// machine's present boot.
    pub fn open(region: Region, boot_id: [u8; 16]) -> Result<Salvage, SalvageError> {
        Salvage::open_with(region, boot_id, read_journal)
    }

    /// Like [`Salvage::open`], for the content of the pool's file without its journal.
    pub fn open_without_journal(
        region: Region,
        boot_id: [u8; 16],
    ) -> Result<Salvage, SalvageError> {
        Salvage::open_with(region, boot_id, |_, id, notes| {
            notes.extend((id.journal != 0).then_some(SalvageNote::WithoutJournal));
            Ok(())
        })
    }

    fn open_with(
        region: Region,
        boot_id: [u8; 16],
        journal: impl FnOnce(&Region, JournalId, &mut Vec<SalvageNote>) -> Result<(), SalvageError>,
    ) -> Result<Salvage, SalvageError> {
        if !region.is_private() {
            return Err(SalvageError::NotPrivate);
        }
        if region.is_empty() || is_blank(&region) {
            return Err(SalvageError::Blank);
        }
        mark_losses(&region);
        let mut notes = Vec::new();
        let mut found = header::find(&region, &mut notes)?;
        if let Some(header) = &found.header {
            let id = JournalId { pool: header.uuid, journal: header.journal };
            journal(&region, id, &mut notes)?;
            if id.journal != 0 {
                mark_losses(&region);
                found = header::find(&region, &mut Vec::new())?;
            }
        }
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

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.geometry.shards
    }

    /// Returns the sizes that were chosen when the pool was created.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the key of the hash that places keys, unless it is lost. Without a valid header it
    /// may be damaged: the layer above must find out whether it leads to the keys.
    pub fn hash_seed(&self) -> Option<[u8; 16]> {
        self.seed
    }

    /// Returns the underlying region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the damage that was found.
    pub fn notes(&self) -> &[SalvageNote] {
        &self.notes
    }

    /// Returns the place of root word `n` of a shard.
    pub fn root(&self, shard: usize, n: usize) -> Ptr {
        Ptr::from_raw(self.geometry.shard_area(shard).root(n))
    }

    /// Returns the number of bytes in allocated blocks, as the shards counted them; at most the
    /// file's length.
    pub fn used(&self) -> u64 {
        let counted =
            (0..self.shards()).map(|s| self.region.load(self.geometry.shard_area(s).used()));
        counted.fold(0, u64::saturating_add).min(self.region.len())
    }

    /// Returns the size in bytes of a block at `at`, allocated or not; 0 if none can begin there.
    pub fn capacity(&self, at: Ptr) -> usize {
        self.block(at).map_or(0, |(_, _, size)| size)
    }

    /// Returns the span, the number and the size of the block that begins at `at`.
    pub(super) fn block(&self, at: Ptr) -> Option<(u32, u32, usize)> {
        let span = self.geometry.span_of(at.raw())?;
        let inside = (at.raw() - self.geometry.span_at(span)) as u32;
        let (number, size) = self.shapes.get(span as usize)?.block(inside)?;
        Some((span, number, size))
    }

    /// Returns the blocks that are in use according to their bits, in the order of their places,
    /// with their sizes.
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

/// Marks losses of an earlier incarnation as lost, though they can be read.
fn mark_losses(region: &Region) {
    losses::read(region).into_iter().for_each(|page| {
        region.mark_lost(page);
    });
}

/// Stores the content of the journal that the pool names, as far as it is valid.
fn read_journal(
    region: &Region,
    id: JournalId,
    notes: &mut Vec<SalvageNote>,
) -> Result<(), SalvageError> {
    if id.journal == 0 {
        let unnamed = region.refuse_unnamed_journal(id).err();
        notes.extend(unnamed.map(SalvageNote::Journal));
        return Ok(());
    }
    let reading = region.read_journal(id, JOURNAL_PROGRESS).map_err(SalvageError::Journal)?;
    notes.extend(reading.problem.map(SalvageNote::Journal));
    Ok(())
}

/// Returns the number of zones; the last one may be incomplete.
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
    // Zones that were grown and not published are zeros: free spans.
    most
}
