//! The bytes of a ring: little-endian numbers at fixed places.
//!
//! ```text
//! header, at 0
//! 0     "PERDRING"
//! 8     version 1 (4 bytes) | crc32c of the header with zeros here (4)
//! 16    bytes of the ring
//! 24    key: random
//! 32    offset at which the place begins that belongs to it
//! 40    ID of the history: 20 bytes, zeros up to 64
//! 64    boot of the machine: 16 bytes; zeros up to 128
//!
//! mark of a sector, 24 bytes
//! 0     offset in the stream of the first frame that begins there
//! 8     offset of the end of the last commit that had ended then; 0 if there was none
//! 16    where the frame is in the ring (4) | crc32c of the key and the 20 bytes before (4)
//!
//! frame
//! 0     offset of its end
//! 8     bytes of the stream that it has (4)
//! 12    its home shard (2), or 65535 | 1 if it is void, 2 if its bytes are not here (2)
//! 16    crc32c of its bytes (4) | crc32c of the key and the 20 bytes before (4)
//! 24    its bytes, and zeros or remains up to a multiple of 8
//! ```

/// The first byte of the ring.
pub(super) const DATA: u64 = 4096;
/// Bytes of the head of a frame.
pub(super) const HEAD: u64 = 24;
/// Frames begin at multiples of this.
pub(super) const ALIGN: u64 = 8;
/// Sectors of a ring.
pub(super) const MARKS: u64 = 16;
const HEADER: usize = 128;
const MARK: usize = 24;
/// The first bytes of a ring's medium.
pub const MAGIC: &[u8; 8] = b"PERDRING";
const VERSION: u32 = 1;
const VOID: u16 = 1;
const BARE: u16 = 2;
const NO_HOME: u16 = u16::MAX;

/// The smallest size of a ring's medium.
pub const LEAST_SIZE: u64 = 64 << 10;
/// The largest size of a ring's medium.
pub const MOST_SIZE: u64 = 4 << 30;

/// Returns the bytes of a ring in a medium of `size` bytes.
pub(super) fn capacity(size: u64) -> u64 {
    let size = size.clamp(LEAST_SIZE, MOST_SIZE);
    (size - DATA) / (MARKS * ALIGN) * (MARKS * ALIGN)
}

/// Returns where the mark of a sector is.
pub(super) fn mark_at(sector: u64) -> u64 {
    HEADER as u64 + sector * MARK as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) capacity: u64,
    pub(super) key: u64,
    pub(super) begun: u64,
    pub(super) id: [u8; 20],
    pub(super) boot: [u8; 16],
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.key.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.begun.to_le_bytes());
        bytes[40..60].copy_from_slice(&self.id);
        bytes[64..80].copy_from_slice(&self.boot);
        let sum = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns the header of these bytes, if they are as long as it says.
    pub(super) fn decode(all: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = all.first_chunk()?;
        let header = Header {
            capacity: number(bytes, 16)?,
            key: number(bytes, 24)?,
            begun: number(bytes, 32)?,
            id: *bytes[40..].first_chunk()?,
            boot: *bytes[64..].first_chunk()?,
        };
        let size = header.capacity.checked_add(DATA)?;
        let fits = size <= MOST_SIZE && all.len() as u64 >= size;
        let is_whole = size >= LEAST_SIZE / 2 && header.capacity.is_multiple_of(MARKS * ALIGN);
        (fits && is_whole && header.encode() == *bytes).then_some(header)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: u64,
    /// The end of the last commit that had ended when its frame began.
    pub(super) committed: u64,
    pub(super) at: u32,
}

impl Mark {
    pub(super) fn encode(&self, key: u64) -> [u8; MARK] {
        let mut bytes = [0; MARK];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.committed.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.at.to_le_bytes());
        let sum = keyed(key, &bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns the mark of a sector.
    pub(super) fn decode(all: &[u8], sector: u64, key: u64) -> Option<Mark> {
        let bytes: &[u8; MARK] = all.get(mark_at(sector) as usize..)?.first_chunk()?;
        let at = u32::from_le_bytes(*bytes[16..].first_chunk()?);
        let mark = Mark { offset: number(bytes, 0)?, committed: number(bytes, 8)?, at };
        (mark.encode(key) == *bytes).then_some(mark)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The offset of its end.
    pub(super) end: u64,
    /// Bytes of the stream that it has.
    pub(super) len: u32,
    /// The shard whose word decides whether it counts.
    pub(super) home: Option<u16>,
    /// Whether its bytes are padding, whatever is there.
    pub(super) is_void: bool,
    /// Whether it takes no space for its bytes, which are too many.
    pub(super) is_bare: bool,
    /// Checksum of its bytes.
    pub(super) body: u32,
}

impl Frame {
    pub(super) fn encode(&self, key: u64) -> [u8; HEAD as usize] {
        let mut bytes = [0; HEAD as usize];
        bytes[..8].copy_from_slice(&self.end.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.home.unwrap_or(NO_HOME).to_le_bytes());
        let void = if self.is_void { VOID } else { 0 };
        let bare = if self.is_bare { BARE } else { 0 };
        bytes[14..16].copy_from_slice(&(void | bare).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.body.to_le_bytes());
        let sum = keyed(key, &bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEAD as usize], key: u64) -> Option<Frame> {
        let half = |at: usize| Some(u16::from_le_bytes(*bytes[at..].first_chunk()?));
        let word = |at: usize| Some(u32::from_le_bytes(*bytes[at..].first_chunk()?));
        let kind = half(14)?;
        let frame = Frame {
            end: number(bytes, 0)?,
            len: word(8)?,
            home: Some(half(12)?).filter(|home| *home != NO_HOME),
            is_void: kind & VOID != 0,
            is_bare: kind & BARE != 0,
            body: word(16)?,
        };
        (frame.len > 0 && frame.encode(key) == *bytes).then_some(frame)
    }

    /// Returns the offset of its start.
    pub(super) fn start(&self) -> u64 {
        self.end.saturating_sub(self.len.into())
    }

    /// Returns the bytes that it takes in the ring.
    pub(super) fn size(&self) -> u64 {
        let body = if self.is_bare { 0 } else { u64::from(self.len) };
        HEAD + body.next_multiple_of(ALIGN)
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn keyed(key: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&key.to_le_bytes()), bytes)
}
