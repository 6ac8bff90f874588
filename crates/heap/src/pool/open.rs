//! Opening a pool.

use super::create::{CreateOptions, survives_power_loss};
use super::journal;
use crate::error::{OpenError, PoolError};
use crate::fault_points::FaultPoint;
use crate::layout::header::{Header, MAGIC};
use crate::layout::{Geometry, ZONES_WORD};
use crate::media_errors::losses;
use crate::recovery::replay::{self, Recovery};
use crate::transaction::heap::Heap;
use crate::transaction::state::ShardState;
use pmem::Region;

impl Heap {
    /// Opens the pool of a region in the machine's present boot, or creates one on a blank region.
    /// Returns how it was recovered; `None` for a new pool. A file of zeros that is longer than an
    /// unfinished pool may have been somebody's data, and is refused.
    pub fn open_or_create(region: Region) -> Result<(Heap, Option<Recovery>), PoolError> {
        let limit = region.reserved();
        Heap::open_or_create_up_to(region, limit)
    }

    /// Like [`Heap::open_or_create`], for a pool that grows to `limit` bytes and may be allowed
    /// more later ([`Heap::set_largest_size`]), within the addresses that are reserved for it.
    pub fn open_or_create_up_to(
        region: Region,
        limit: u64,
    ) -> Result<(Heap, Option<Recovery>), PoolError> {
        let limit = if region.is_device() { region.reserved() } else { limit };
        let (heap, recovery) = if Heap::is_blank(&region) {
            let options = CreateOptions::fitting(limit.min(region.reserved()))?;
            let most = options.geometry.pool_bytes(1);
            if region.len() > most && !region.is_device() {
                return Err(OpenError::Zeros { found: region.len(), most }.into());
            }
            (Heap::create(region, &options)?, None)
        } else {
            let (heap, recovery) = Heap::open(region, pmem::boot_id())?;
            (heap, Some(recovery))
        };
        heap.set_largest_size(limit);
        heap.set_snapshot_limit(heap.limit() / 2);
        Ok((heap, recovery))
    }

    /// Opens a pool and recovers it. `boot_id` is that of the machine's present boot.
    pub fn open(region: Region, boot_id: [u8; 16]) -> Result<(Heap, Recovery), OpenError> {
        if region.len() < 3 * 4096 {
            return Err(too_short(&region));
        }
        let mut header = Header::read(&region)?;
        let geometry = header.geometry;
        let unknown = header.features.forbid_writing();
        if unknown != 0 && !region.is_private() {
            return Err(OpenError::ReadOnly { unknown });
        }
        let journal;
        (header, journal) = journal::recover(&region, header)?;
        let begins_journal = journal::begin(&region, &mut header)?;
        replay_losses(&region)?;
        let zones = zones(&region, &geometry)?;
        if !header.power_safe && !header.clean && header.boot_id != boot_id {
            let (expected, found) = (hex(header.boot_id), hex(boot_id));
            return Err(OpenError::OtherBoot { expected, found });
        }
        // Opening increments the generation twice, closing once.
        let has_space = header.generation < u64::MAX - 3;
        let next = header.epoch.checked_add(1).filter(|_| has_space);
        let epoch = next.ok_or(OpenError::Exhausted)?;
        let recovered = replay::all(&region, &geometry, header.epoch, header.lsn)?;
        let report = Recovery { clean: header.clean, epoch, journal, ..recovered.report };
        if FaultPoint::NextEpoch.is_enabled() {
            header.epoch = epoch;
        }
        let power_safe = survives_power_loss(&region);
        // Writes acknowledged earlier may be in the caches only, even if no log mentions them.
        if power_safe && !header.power_safe && !header.clean && region.sync_all().is_err() {
            return Err(OpenError::Failed);
        }
        header.lsn = recovered.lsn;
        header.clean = false;
        header.boot_id = boot_id;
        header.power_safe = power_safe;
        header.features = header.features.written();
        header.write_both(&region);
        if region.failed() {
            return Err(OpenError::Failed);
        }
        if begins_journal {
            region.start_journal();
        }
        let ends = recovered.ends.iter().enumerate();
        let states =
            ends.map(|(shard, &(line, seq))| ShardState::new(&region, &geometry, shard, line, seq));
        let states = states.collect();
        let heap = Heap::assemble(region, header, zones, false, states);
        if heap.stopped().is_some() {
            heap.poison();
        }
        Ok((heap, report))
    }
}

/// Returns the error for a file that is too short for a header: the start of a pool, or something
/// else.
fn too_short(region: &Region) -> OpenError {
    let found = region.first_bytes();
    let len = region.len().min(8) as usize;
    // A pool that was never finished has zeros for a magic.
    let has_none = len == 8 && found == [0; 8];
    if has_none || found[..len] == MAGIC[..len] {
        return OpenError::Truncated { expected: 3 * 4096, found: region.len() };
    }
    OpenError::Magic { expected: MAGIC, found }
}

/// Marks unresolved losses of an earlier incarnation as lost again, though they can be read.
fn replay_losses(region: &Region) -> Result<(), OpenError> {
    region.record_losses(losses::record);
    let pages =
        if FaultPoint::ReplayLosses.is_enabled() { losses::read(region) } else { Vec::new() };
    let all = pages.into_iter().all(|page| region.mark_lost(page));
    if all { Ok(()) } else { Err(OpenError::UnresolvedLosses) }
}

/// Returns how many zones the pool has; all of them are in the file.
fn zones(region: &Region, geometry: &Geometry) -> Result<u64, OpenError> {
    let zones = region.load(ZONES_WORD);
    let most = geometry.zones_in(region.len());
    let is_lost = zones == 0
        && region.lost().1.iter().any(|lost| (lost.at..lost.at + lost.len).contains(&ZONES_WORD));
    if is_lost && most > 0 {
        // Zones that were grown and not published are zeros: free spans.
        return Ok(most);
    }
    if (1..=most).contains(&zones) {
        return Ok(zones);
    }
    let expected =
        geometry.zones_at().saturating_add(zones.max(1).saturating_mul(geometry.zone_bytes()));
    if expected <= region.len() || zones > u64::from(u32::MAX) {
        return Err(OpenError::DamagedZones { found: zones, most });
    }
    Err(OpenError::Truncated { expected, found: region.len() })
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
