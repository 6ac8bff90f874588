//! Creating a pool.

#![allow(unsafe_code, reason = "a new pool's metadata is zeroed")]

use super::journal;
use crate::alloc::spans::publish_zones;
use crate::error::CreateError;
use crate::fault_points::{self, FaultPoint};
use crate::layout::header::{self, Features, Header};
use crate::layout::{Geometry, SPAN};
use crate::log::ring::tail_word;
use crate::media_errors::losses;
use crate::transaction::heap::Heap;
use crate::transaction::state::ShardState;
use pmem::{Domain, Region};

/// The options of a new pool. Randomness is passed in here, so that a test is repeatable.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateOptions {
    /// The sizes.
    pub geometry: Geometry,
    /// Distinguishes the pool from any other.
    pub uuid: [u8; 16],
    /// The key of the hash that places keys: secret and random, so that no client can aim at one
    /// bucket.
    pub hash_seed: [u8; 16],
    /// The present boot of the machine.
    pub boot_id: [u8; 16],
}

impl CreateOptions {
    /// Returns options for a pool of `geometry`, with uuid and seed from the system's random
    /// source, and the present boot.
    pub fn random(geometry: Geometry) -> std::io::Result<CreateOptions> {
        use std::io::Read;
        let mut bytes = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let (mut uuid, mut hash_seed) = ([0; 16], [0; 16]);
        uuid.copy_from_slice(&bytes[..16]);
        hash_seed.copy_from_slice(&bytes[16..]);
        Ok(CreateOptions { geometry, uuid, hash_seed, boot_id: pmem::boot_id() })
    }

    /// Returns options for a pool that may grow to `limit` bytes and is used by all cores of this
    /// process.
    pub fn fitting(limit: u64) -> std::io::Result<CreateOptions> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        CreateOptions::random(Geometry::fitting(cores, limit))
    }
}

impl Heap {
    /// Creates a pool on a region: a new file, or a device, whose content is lost.
    pub fn create(region: Region, options: &CreateOptions) -> Result<Heap, CreateError> {
        let geometry = options.geometry;
        if !geometry.is_valid() {
            return Err(CreateError::Geometry(geometry));
        }
        let needed = geometry.pool_bytes(1);
        if region.reserved() < needed {
            return Err(CreateError::TooSmall { needed, limit: region.reserved() });
        }
        let grown = region.begin_sparse(needed, &geometry.first_parts());
        grown.map_err(|source| CreateError::Grow { needed, source })?;
        if region.is_device() {
            blank(&region, &geometry);
        }
        region.record_losses(losses::record);
        publish_zones(&region, 1);
        let mut header = Header {
            uuid: options.uuid,
            seed: options.hash_seed,
            geometry,
            generation: 0,
            epoch: 1,
            clean: false,
            lsn: 1,
            boot_id: options.boot_id,
            power_safe: survives_power_loss(&region),
            journal: 0,
            features: Features::default().written(),
        };
        if region.domain() == Domain::Journal {
            // So that a journal that is begun, and then not named, belongs to this pool.
            header.write(&region);
        } else {
            header.write_both(&region);
        }
        if journal::begin(&region, &mut header)? {
            header.write_both(&region);
            region.start_journal();
        }
        let states = begin_logs(&region, &geometry).ok_or(CreateError::Failed)?;
        Ok(Heap::assemble(region, header, 1, true, states))
    }

    /// Creates a heap in anonymous memory, which holds up to `limit` bytes and survives nothing.
    pub fn volatile(limit: u64, options: &CreateOptions) -> Result<Heap, CreateError> {
        let reserve = options.geometry.pool_bytes(options.geometry.zones_in(limit).max(1));
        Heap::create(Region::anonymous(reserve as usize)?, options)
    }

    /// Returns true if the region certainly holds nothing: a new file, or one whose pool was never
    /// finished, in which everything after the header's pages is zeros or holes. On a device, whose
    /// other bytes may be anything, only the range is examined that [`crate::OpenError::NoHeader`]
    /// tells the user to zero.
    pub fn is_blank(region: &Region) -> bool {
        header::is_blank(region)
    }
}

/// Begins the log of each shard with the number 1, so that a tail that is lost, and read as zeros,
/// leads to no record; returns `None` if the medium fails. Only a pool whose header is durable may
/// have anything but zeros there. A pool of which this was interrupted has logs that begin with 0.
fn begin_logs(region: &Region, geometry: &Geometry) -> Option<Vec<ShardState>> {
    const FIRST: u64 = 1;
    if region.failed() {
        return None;
    }
    let begin = |shard| {
        let tail = geometry.shard_area(shard).tail();
        // SAFETY: the pool is being made: nobody else reads or writes the region.
        unsafe { region.store(tail, tail_word(0, FIRST)) };
        fault_points::flush(region, tail, 8, FaultPoint::FlushFirstTail);
        ShardState::new(region, geometry, shard, 0, FIRST)
    };
    let states = (0..geometry.shards).map(begin).collect();
    fault_points::fence(region, FaultPoint::FenceFirstTail);
    (!region.failed()).then_some(states)
}

/// Returns true if fenced bytes survive a power loss.
pub(super) fn survives_power_loss(region: &Region) -> bool {
    !region.emulated() && !matches!(region.domain(), Domain::Process | Domain::Volatile)
}

/// Zeros the ranges that a pool expects to be zero on a device, whose bytes may be anything:
/// everything before the zones, and each zone's span table.
fn blank(region: &Region, geometry: &Geometry) {
    let zeros = vec![0; SPAN as usize];
    let zero = |from: u64, to: u64| {
        for at in (from..to).step_by(zeros.len()) {
            let len = zeros.len().min((to - at) as usize);
            // SAFETY: the pool is being made: nobody else reads or writes the region.
            unsafe { region.write(at, &zeros[..len]) };
            region.flush(at, len);
        }
        region.fence();
    };
    zero(0, geometry.zones_at());
    for zone in 0..geometry.zones_in(region.len()) {
        let at = geometry.pool_bytes(zone);
        zero(at, at + geometry.table_spans() * SPAN);
    }
}
