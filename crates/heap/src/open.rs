//! Making a pool and opening one.

#![allow(unsafe_code, reason = "a new pool's metadata is zeroed")]

use crate::alloc::Alloc;
use crate::error::{CreateError, OpenError, PoolError};
use crate::header::{Features, Header, HeaderError, MAGIC, VERSION};
use crate::heap::Heap;
use crate::layout::{DEVICE_BLANK, Geometry, HEADER_A, HEADER_B, SHARDS_AT, SPAN, ZONES_WORD};
use crate::losses;
use crate::recover::{self, Recovery};
use crate::ring::Ring;
use crate::spans::publish_zones;
use crate::state::{Plan, State, Tx};
use crate::step::Step;
use pmem::{Domain, Region};
use std::collections::VecDeque;

/// What a new pool is given. Randomness comes in here, so that a test can repeat itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct CreateOptions {
    /// The sizes.
    pub geometry: Geometry,
    /// Tells the pool from any other.
    pub uuid: [u8; 16],
    /// The key of the hash that places keys: secret and random, so that no client can aim at one bucket.
    pub hash_seed: [u8; 16],
    /// The present boot of the machine.
    pub boot_id: [u8; 16],
}

impl CreateOptions {
    /// For a pool of `geometry`, with uuid and seed from the system's random source, and the present boot.
    pub fn random(geometry: Geometry) -> std::io::Result<CreateOptions> {
        use std::io::Read;
        let mut bytes = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let (mut uuid, mut hash_seed) = ([0; 16], [0; 16]);
        uuid.copy_from_slice(&bytes[..16]);
        hash_seed.copy_from_slice(&bytes[16..]);
        Ok(CreateOptions { geometry, uuid, hash_seed, boot_id: pmem::boot_id() })
    }

    /// The same for a pool that may grow to `limit` bytes and is used by all cores of this process.
    pub fn fitting(limit: u64) -> std::io::Result<CreateOptions> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        CreateOptions::random(Geometry::fitting(cores, limit))
    }
}

impl Heap {
    /// Makes a pool on a region: a new file, or a device, whose content is lost.
    pub fn create(region: Region, options: &CreateOptions) -> Result<Heap, CreateError> {
        let geometry = options.geometry;
        if !geometry.is_valid() {
            return Err(CreateError::Geometry(geometry));
        }
        let needed = geometry.pool_bytes(1);
        if region.reserved() < needed {
            return Err(CreateError::TooSmall { needed, limit: region.reserved() });
        }
        region.grow(needed).map_err(|source| CreateError::Grow { needed, source })?;
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
            features: Features::default(),
        };
        write_both(&mut header, &region);
        if region.failed() {
            return Err(CreateError::Failed);
        }
        let states =
            (0..geometry.shards).map(|shard| state(&region, &geometry, shard, 0, 0)).collect();
        Ok(Heap::assemble(region, header, (1, true), states))
    }

    /// A heap in anonymous memory, which holds up to `limit` bytes and survives nothing.
    pub fn volatile(limit: u64, options: &CreateOptions) -> Result<Heap, CreateError> {
        let reserve = options.geometry.pool_bytes(options.geometry.zones_in(limit).max(1));
        let region = Region::anonymous(reserve as usize)
            .map_err(|_| CreateError::TooSmall { needed: reserve, limit })?;
        Heap::create(region, options)
    }

    /// Opens the pool of a region in the machine's present boot, or makes one on a region that is blank. Returns how it was
    /// recovered; `None` for a new pool.
    pub fn open_or_create(region: Region) -> Result<(Heap, Option<Recovery>), PoolError> {
        if Heap::is_blank(&region) {
            let options = CreateOptions::fitting(region.reserved())?;
            return Ok((Heap::create(region, &options)?, None));
        }
        let (heap, recovery) = Heap::open(region, pmem::boot_id())?;
        Ok((heap, Some(recovery)))
    }

    /// Whether the region certainly holds nothing: a new file, or one whose pool was never finished. What comes after the
    /// header's pages is zeros or holes then, to the file's end. Of a device, whose bytes may be anything, what
    /// [`OpenError::NoHeader`] tells to zero for a new pool.
    pub fn is_blank(region: &Region) -> bool {
        let has_magic = |at: u64| region.len() > at && region.load(at) != 0;
        if has_magic(HEADER_A) || has_magic(HEADER_B) || !region.len().is_multiple_of(8) {
            return false;
        }
        let end = if region.is_device() { region.len().min(DEVICE_BLANK) } else { region.len() };
        region.is_zero(SHARDS_AT.min(end), end)
    }

    /// Opens a pool and recovers it. `boot_id` is that of the machine's present boot.
    pub fn open(region: Region, boot_id: [u8; 16]) -> Result<(Heap, Recovery), OpenError> {
        if region.len() < 3 * 4096 {
            return Err(OpenError::Truncated { expected: 3 * 4096, found: region.len() });
        }
        let mut header = Header::read(&region).map_err(refusal)?;
        let geometry = header.geometry;
        let unknown = header.features.forbid_writing();
        if unknown != 0 && !region.is_private() {
            return Err(OpenError::ReadOnly { unknown });
        }
        replay_losses(&region)?;
        let zones = zones(&region, &geometry)?;
        if !header.power_safe && !header.clean && header.boot_id != boot_id {
            let (expected, found) = (hex(header.boot_id), hex(boot_id));
            return Err(OpenError::OtherBoot { expected, found });
        }
        // Opening counts the generation up twice, closing once.
        let has_room = header.generation < u64::MAX - 3;
        let next = header.epoch.checked_add(1).filter(|_| has_room);
        let epoch = next.ok_or(OpenError::Exhausted)?;
        let recovered = recover::all(&region, &geometry, header.epoch, header.lsn)?;
        let report = Recovery { clean: header.clean, epoch, ..recovered.report };
        if Step::NextEpoch.done() {
            header.epoch = epoch;
        }
        let power_safe = survives_power_loss(&region);
        // What was acknowledged before may be in no more than the caches, also where no log speaks of it.
        if power_safe && !header.power_safe && !header.clean && region.sync_all().is_err() {
            return Err(OpenError::Failed);
        }
        header.lsn = recovered.lsn;
        header.clean = false;
        header.boot_id = boot_id;
        header.power_safe = power_safe;
        write_both(&mut header, &region);
        if region.failed() {
            return Err(OpenError::Failed);
        }
        let ends = recovered.ends.iter().enumerate();
        let states = ends.map(|(shard, &(line, seq))| state(&region, &geometry, shard, line, seq));
        let states = states.collect();
        let heap = Heap::assemble(region, header, (zones, false), states);
        if heap.stopped().is_some() {
            heap.poison();
        }
        Ok((heap, report))
    }
}

/// What was lost and not resolved in an earlier incarnation is lost in this one too, though it can be read.
fn replay_losses(region: &Region) -> Result<(), OpenError> {
    region.record_losses(losses::record);
    let pages = if Step::ReplayLosses.done() { losses::read(region) } else { Vec::new() };
    let all = pages.into_iter().all(|page| region.lose(page));
    if all { Ok(()) } else { Err(OpenError::UnresolvedLosses) }
}

/// Begins a life in both copies. Were one of the last life left and the other damaged later, the pool would go on from the
/// last life's epoch: blind to the log of this one, and soon giving its numbers a second time.
fn write_both(header: &mut Header, region: &Region) {
    header.write(region);
    if Step::WriteBothHeaders.done() {
        header.write(region);
    }
}

/// How many zones the pool has, all of them in the file.
fn zones(region: &Region, geometry: &Geometry) -> Result<u64, OpenError> {
    let zones = region.load(ZONES_WORD);
    let most = geometry.zones_in(region.len());
    let is_lost = zones == 0
        && region.lost().1.iter().any(|lost| (lost.at..lost.at + lost.len).contains(&ZONES_WORD));
    if is_lost && most > 0 {
        // What was grown and not published is zeros: spans that are free.
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

fn state(region: &Region, geometry: &Geometry, shard: usize, line: u64, seq: u64) -> State {
    State {
        tx: Tx::default(),
        plan: Plan::default(),
        ring: Ring::new(geometry, shard, line, seq),
        alloc: Alloc::new(*geometry, shard),
        limbo: VecDeque::new(),
        used: region.load(geometry.shard_area(shard).used()),
        cache: None,
        overlay: None,
        committing: false,
    }
}

fn survives_power_loss(region: &Region) -> bool {
    !region.emulated() && !matches!(region.domain(), Domain::Process | Domain::Volatile)
}

/// Zeros what a pool expects to be zero on a device, whose bytes may be anything: all before the zones, and
/// each zone's span table.
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

pub(crate) fn refusal(error: HeaderError) -> OpenError {
    match error {
        HeaderError::Magic { found } if found == [0; 8] => OpenError::NoHeader,
        HeaderError::Magic { found } => OpenError::Magic { expected: MAGIC, found },
        HeaderError::Version { found } => OpenError::Version { expected: VERSION, found },
        HeaderError::Features { incompat } => OpenError::Features { unknown: incompat },
        HeaderError::Checksum { expected, found } => OpenError::HeaderChecksum { expected, found },
        HeaderError::Geometry(geometry) => OpenError::Geometry(geometry),
        HeaderError::Reserved { at } => OpenError::Reserved { at },
    }
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
