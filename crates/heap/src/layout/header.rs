//! The pool's header: what kind of file it is, its geometry, and the epoch of its current
//! incarnation.
//!
//! Two copies are written in turn, so that one is always whole; the valid one with the higher
//! generation counts. Magic and version never change their place. All fields are little endian.
//!
//! A program that finds an unknown feature refuses the pool (incompat), only reads it (ro_compat),
//! or uses it and leaves the bit alone (compat). Reserved bytes are zero: other values are damage,
//! or belong to a feature without a bit.
//!
//! ```text
//! 0   magic "PERDURA\0"        8     64  generation              8
//! 8   version u32              4     72  epoch u32               4
//! 12  crc32c of 16..192 u32    4     76  state u32 (1 = clean)   4
//! 16  compat features          8     80  lsn: above all before   8
//! 24  ro_compat features       8     88  boot id                16
//! 32  incompat features        8     104 survives power loss u32 4
//! 40  uuid                    16     108 zero
//! 56  shards u32, ring_parts u32     112 ring_part u32, zone_spans u32
//! 120 hash seed               16     136 number of the journal    8
//!                                    144 zero up to 192
//! ```

use super::geometry::{DEVICE_BLANK, Geometry, HEADER_A, HEADER_B, SHARDS_AT};
use crate::checksum::crc32c;
use crate::fault_points::{self, FaultPoint};
use pmem::{Domain, Region};
use std::ops::Range;

pub(crate) const MAGIC: [u8; 8] = *b"PERDURA\0";

/// Returns true if a file that begins with these bytes claims to be a pool.
pub fn begins_pool(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The format that this code reads and writes.
pub const VERSION: u32 = 2;
/// The file alone may lack writes: the header names the journal that has them.
const JOURNALED: u64 = 1;
/// Blocks of the layers above may have short headers, which older programs take for damage.
const SHORT_HEADERS: u64 = 2;
/// Features that this code knows.
const KNOWN_INCOMPAT: u64 = JOURNALED | SHORT_HEADERS;
const KNOWN_RO_COMPAT: u64 = 0;
/// Reserved bytes.
const RESERVED: [Range<usize>; 2] = [108..112, JOURNAL_END..BYTES];
/// The number of the journal, or zero.
const JOURNAL: usize = 136;
const JOURNAL_END: usize = JOURNAL + size_of::<u64>();
/// Bytes of a copy.
pub(crate) const BYTES: usize = 192;

/// The content of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) uuid: [u8; 16],
    pub(crate) seed: [u8; 16],
    pub(crate) geometry: Geometry,
    pub(crate) generation: u64,
    pub(crate) epoch: u32,
    pub(crate) clean: bool,
    pub(crate) lsn: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) power_safe: bool,
    /// The number of the journal without which the file is not complete; 0 if it is.
    pub(crate) journal: u64,
    /// The features that were found.
    pub(crate) features: Features,
}

/// Optional features of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) compat: u64,
    pub(crate) ro_compat: u64,
    pub(crate) incompat: u64,
}

impl Features {
    /// The features of a pool to which this program writes, whatever it had before.
    pub(crate) fn written(self) -> Features {
        Features { incompat: self.incompat | SHORT_HEADERS, ..self }
    }

    /// Returns the features that forbid this program to write to the pool.
    pub(crate) fn forbid_writing(&self) -> u64 {
        self.ro_compat & !KNOWN_RO_COMPAT
    }
}

/// Why no header could be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Magic { found: [u8; 8] },
    Version { found: u32 },
    Features { incompat: u64 },
    Checksum { expected: u32, found: u32 },
    Geometry(Geometry),
    Reserved { at: usize },
}

impl Header {
    fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.features.compat.to_le_bytes());
        put(24, &self.features.ro_compat.to_le_bytes());
        let journaled = if self.journal == 0 { 0 } else { JOURNALED };
        put(32, &(self.features.incompat & !JOURNALED | journaled).to_le_bytes());
        put(40, &self.uuid);
        put(56, &(self.geometry.shards as u32).to_le_bytes());
        put(60, &(self.geometry.ring_parts as u32).to_le_bytes());
        put(64, &self.generation.to_le_bytes());
        put(72, &self.epoch.to_le_bytes());
        put(76, &u32::from(self.clean).to_le_bytes());
        put(80, &self.lsn.to_le_bytes());
        put(88, &self.boot_id);
        put(104, &u32::from(self.power_safe).to_le_bytes());
        put(112, &(self.geometry.ring_part as u32).to_le_bytes());
        put(116, &(self.geometry.zone_spans as u32).to_le_bytes());
        put(120, &self.seed);
        put(JOURNAL, &self.journal.to_le_bytes());
        let crc = crc32c(&out[16..]);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(raw: &[u8; BYTES]) -> Result<Header, HeaderError> {
        let u32_at = |at: usize| u32::from_le_bytes(array(raw, at));
        let u64_at = |at: usize| u64::from_le_bytes(array(raw, at));
        if raw[..8] != MAGIC {
            return Err(HeaderError::Magic { found: array(raw, 0) });
        }
        if u32_at(8) != VERSION {
            return Err(HeaderError::Version { found: u32_at(8) });
        }
        let (expected, found) = (crc32c(&raw[16..]), u32_at(12));
        if expected != found && FaultPoint::VerifyHeader.is_enabled() {
            return Err(HeaderError::Checksum { expected, found });
        }
        let features = Features { compat: u64_at(16), ro_compat: u64_at(24), incompat: u64_at(32) };
        if features.incompat & !KNOWN_INCOMPAT != 0 {
            return Err(HeaderError::Features { incompat: features.incompat & !KNOWN_INCOMPAT });
        }
        if let Some(at) = RESERVED.into_iter().flatten().find(|&at| raw[at] != 0) {
            return Err(HeaderError::Reserved { at });
        }
        let journal = u64_at(JOURNAL);
        if (journal != 0) != (features.incompat & JOURNALED != 0) {
            return Err(HeaderError::Reserved { at: JOURNAL });
        }
        let geometry = Geometry {
            shards: u32_at(56) as usize,
            ring_parts: u32_at(60) as usize,
            ring_part: u32_at(112) as usize,
            zone_spans: u32_at(116) as usize,
        };
        if !geometry.is_valid() {
            return Err(HeaderError::Geometry(geometry));
        }
        Ok(Header {
            uuid: array(raw, 40),
            seed: array(raw, 120),
            geometry,
            generation: u64_at(64),
            epoch: u32_at(72),
            clean: u32_at(76) == 1,
            lsn: u64_at(80),
            boot_id: array(raw, 88),
            power_safe: u32_at(104) == 1,
            journal,
            features,
        })
    }

    /// Returns the valid copy with the higher generation; if neither is valid, the error of the
    /// copy that was written.
    pub(crate) fn read(region: &Region) -> Result<Header, HeaderError> {
        match (Self::read_at(region, HEADER_A), Self::read_at(region, HEADER_B)) {
            (Ok(a), Ok(b)) => Ok(if a.generation >= b.generation { a } else { b }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(HeaderError::Magic { found: [0, ..] }), Err(error)) | (Err(error), Err(_)) => {
                Err(error)
            }
        }
    }

    pub(crate) fn read_at(region: &Region, at: u64) -> Result<Header, HeaderError> {
        Self::decode(&Self::raw(region, at))
    }

    /// Returns the bytes of a copy.
    pub(crate) fn raw(region: &Region, at: u64) -> [u8; BYTES] {
        let mut raw = [0; BYTES];
        for (i, word) in raw.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&region.load(at + i as u64 * 8).to_le_bytes());
        }
        raw
    }

    /// Makes this the pool's header: increments the generation and overwrites the older copy.
    /// Durable on return. The magic is written last: a header under construction is either blank or
    /// whole. After a failed fence nothing more is written: what the header refers to may be lost,
    /// or the copy that would be the only one left.
    #[allow(unsafe_code, reason = "the header is written through the region")]
    pub(crate) fn write(&mut self, region: &Region) {
        if region.failed() {
            return;
        }
        self.generation += 1;
        let second =
            !self.generation.is_multiple_of(2) && FaultPoint::AlternateHeaders.is_enabled();
        let at = if second { HEADER_B } else { HEADER_A };
        let header = self.encode();
        if region.domain() == Domain::Journal {
            // A copy is within a sector of the disk: it arrives whole, or not.
            // SAFETY: as below.
            unsafe { region.write(at, &header) };
            region.flush(at, BYTES);
            region.fence();
            return;
        }
        // SAFETY: the caller opens, creates or closes the pool: nobody else reads or writes the
        // header.
        unsafe { region.write(at + 8, &header[8..]) };
        fault_points::flush(region, at, BYTES, FaultPoint::FlushHeader);
        fault_points::fence(region, FaultPoint::FenceHeader);
        if region.failed() {
            return;
        }
        // SAFETY: as above.
        unsafe { region.write(at, &header[..8]) };
        fault_points::flush(region, at, 8, FaultPoint::FlushMagic);
        fault_points::fence(region, FaultPoint::FenceMagic);
    }

    /// Begins an incarnation in both copies. If one copy still had the last incarnation, and the
    /// other were damaged later, the pool would continue from the old epoch: it would not see the
    /// log of this incarnation, and would soon use its numbers again.
    pub(crate) fn write_both(&mut self, region: &Region) {
        self.write(region);
        if FaultPoint::WriteBothHeaders.is_enabled() {
            self.write(region);
        }
    }
}

/// Returns true if a region certainly holds neither a pool nor anything else: see
/// [`crate::Heap::is_blank`].
pub(crate) fn is_blank(region: &Region) -> bool {
    let has_magic = |at: u64| region.len() > at && region.load(at) != 0;
    if has_magic(HEADER_A) || has_magic(HEADER_B) || !region.len().is_multiple_of(8) {
        return false;
    }
    let end = if region.is_device() { region.len().min(DEVICE_BLANK) } else { region.len() };
    region.is_zero(SHARDS_AT.min(end), end)
}

fn array<const N: usize>(raw: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&raw[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            uuid: [7; 16],
            seed: [9; 16],
            geometry: Geometry::default(),
            generation: 3,
            epoch: 5,
            clean: true,
            lsn: 77,
            boot_id: [1; 16],
            power_safe: false,
            journal: 0,
            features: Features { compat: 6, ..Features::default() },
        }
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        assert_eq!(Header::decode(&sample().encode()), Ok(sample()));
        let features = Features { incompat: JOURNALED, ..sample().features };
        let journaled = Header { journal: 7, features, ..sample() };
        assert_eq!(Header::decode(&journaled.encode()), Ok(journaled.clone()));
        // The number alone says whether there is one.
        assert_eq!(Header { journal: 0, ..journaled }.encode(), sample().encode());
    }

    #[test]
    fn what_is_not_known_is_refused_though_it_has_its_checksum() {
        let check = |at: usize, refused| {
            let mut raw = sample().encode();
            raw[at] = 4;
            let crc = crc32c(&raw[16..]);
            raw[12..16].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Header::decode(&raw).err(), refused, "byte {at}");
        };
        check(16, None);
        check(24, None);
        check(32, Some(HeaderError::Features { incompat: 4 }));
        check(JOURNAL, Some(HeaderError::Reserved { at: JOURNAL }));
        check(39, Some(HeaderError::Features { incompat: 4 << 56 }));
        for at in [108, 111, JOURNAL_END, BYTES - 1] {
            check(at, Some(HeaderError::Reserved { at }));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for byte in 0..BYTES {
            let mut raw = sample().encode();
            raw[byte] ^= 1;
            let refused = Header::decode(&raw).expect_err("a flipped bit");
            let expected = match byte {
                0..8 => matches!(refused, HeaderError::Magic { .. }),
                8..12 => matches!(refused, HeaderError::Version { .. }),
                _ => matches!(refused, HeaderError::Checksum { .. }),
            };
            assert!(expected, "byte {byte}: {refused:?}");
        }
    }
}
