//! A ring with the end of the stream, on a medium that outlives the process.
//!
//! A primary writes what a commit appends to its stream here *before* the commit, and the commit
//! stages the offset of its end in a word of one of its shards, the frame's home. So after a crash
//! the words say which frames count, and the ring has their bytes: replicas that are behind can
//! continue. See [`recover`].
//!
//! ```text
//! 0       header: see `layout`
//! 128     16 marks, one for each sector of the ring: where the first frame begins that has begun
//!         there
//! 4096    the ring: frames, one after the other, which begin at multiples of 8 and go on at the
//!         beginning where they reach the end
//! ```
//!
//! Invariants:
//! - the frames are in the order of the stream, without a gap;
//! - a frame is written before the commit of what it has, and its lines are being written back
//!   then, so that the commit's own fence makes it durable, with the heads of the frames before it
//!   whose commits have not ended;
//! - a frame whose commit failed is void, durably so, before its home shard is unlocked;
//! - a frame without a home is durable before anybody sees it.
//!
//! A medium that keeps its bytes when the process dies, and is to survive no more, needs neither
//! lines to be written back nor fences.

mod layout;
mod recover;

use self::layout::{ALIGN, DATA, Frame, HEAD, Header, MARKS, Mark};
pub use self::layout::{LEAST_SIZE, MAGIC, MOST_SIZE};
pub use self::recover::{Found, Place, Recovered, find, recover, recover_furthest};
use crate::Id;
use crate::fault_points::FaultPoint;

/// Bytes of a frame that are written at once when a ring is begun with older bytes.
const PART: usize = 64 << 10;

/// Media are made of pages.
const PAGE: u64 = 4096;

/// The bytes in which a ring is kept.
pub trait Medium: Send {
    /// Stores bytes.
    fn write(&mut self, at: u64, bytes: &[u8]);
    /// Begins to make a range durable; the next fence of this thread completes it.
    fn write_back(&mut self, at: u64, len: usize);
    /// Completes what this thread has begun to make durable.
    fn fence(&mut self);
    /// Returns true if some of what was written did not get there.
    fn has_failed(&self) -> bool {
        false
    }
}

/// The history that a ring is to have.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// The ID of the history.
    pub id: Id,
    /// The offset at which the place that belongs to it begins: frames that end there count.
    pub begun: u64,
    /// The bytes of the stream before that.
    pub kept: &'a [u8],
    /// The boot of the machine.
    pub boot: [u8; 16],
    /// Random bytes by which frames of other rings are told apart.
    pub key: u64,
}

/// A ring to which frames are appended.
pub struct Ring {
    medium: Box<dyn Medium>,
    key: u64,
    /// Bytes of the ring.
    capacity: u64,
    /// Where the next frame goes, counted without an end.
    at: u64,
    /// The offset of the stream's end.
    end: u64,
    /// The last sector with a mark, counted without an end.
    marked: Option<u64>,
    /// The end of the last commit that has ended.
    committed: u64,
}

/// Returns the bytes that a ring takes of a medium of `size` bytes.
pub fn size_of(size: u64) -> u64 {
    DATA + layout::capacity(size.clamp(LEAST_SIZE, MOST_SIZE).next_multiple_of(PAGE))
}

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    at: u64,
    frame: Frame,
}

impl Ring {
    /// Begins a ring in `size` bytes of a medium: what was there is no ring any more. It is durable
    /// before a store can name it.
    pub fn begin(mut medium: Box<dyn Medium>, size: u64, beginning: &Beginning<'_>) -> Ring {
        let capacity = layout::capacity(size);
        let Beginning { id, begun, kept, boot, key } = *beginning;
        medium.write(0, &[0; DATA as usize]);
        let start = begun - kept.len() as u64;
        let mut ring =
            Ring { medium, key, capacity, at: 0, end: start, marked: None, committed: 0 };
        // The first mark is durable with the header: whoever makes one later may not have ended its
        // commit when a crash leaves a commit after it.
        if FaultPoint::MarkBeginning.is_enabled() {
            ring.mark(start);
        }
        for part in kept.chunks(PART.min(capacity as usize / 8)) {
            ring.append(None, &[part], std::iter::empty());
        }
        let header = Header { capacity, key, begun, id: id.to_bytes(), boot };
        ring.put(0, &header.encode());
        if FaultPoint::FenceBeginning.is_enabled() {
            ring.medium.fence();
        }
        ring
    }

    /// Returns the bytes that it takes.
    pub fn size(&self) -> u64 {
        DATA + self.capacity
    }

    /// Returns the offset of the stream's end.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Appends a frame with these bytes, one after the other, and begins to make it durable,
    /// together with the heads of the `unfinished` frames before it. Its home is a shard, which
    /// decides whether it counts; without one it counts always.
    pub(crate) fn append(
        &mut self,
        home: Option<u16>,
        parts: &[&[u8]],
        unfinished: impl Iterator<Item = Written>,
    ) -> Written {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let is_bare = HEAD + len as u64 > self.capacity / 4;
        let body = match is_bare {
            true => 0,
            false => parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part)),
        };
        self.end += len as u64;
        let frame = Frame {
            end: self.end,
            len: u32::try_from(len).unwrap_or(u32::MAX),
            home,
            is_void: false,
            is_bare,
            body,
        };
        let written = Written { at: self.at, frame };
        self.mark(self.end - len as u64);
        self.put_ring(self.at, &frame.encode(self.key));
        let mut at = self.at + HEAD;
        if !is_bare {
            for part in parts {
                self.put_ring(at, part);
                at += part.len() as u64;
            }
        }
        self.write_back_ring(self.at, (at - self.at) as usize);
        if FaultPoint::WriteBackHeads.is_enabled() {
            unfinished.for_each(|before| self.write_back_ring(before.at, HEAD as usize));
        }
        self.at += frame.size();
        written
    }

    /// Notes that the commit has ended whose frame ends there.
    pub(crate) fn note_committed(&mut self, end: u64) {
        self.committed = self.committed.max(end);
    }

    /// Makes a frame without a home that was appended last by this thread durable.
    pub(crate) fn fence(&mut self) {
        if FaultPoint::FenceHomeless.is_enabled() {
            self.medium.fence();
        }
    }

    /// Returns true if its medium does not take what is written.
    pub(crate) fn has_failed(&self) -> bool {
        self.medium.has_failed()
    }

    /// Makes a frame padding, durably, if it was not overwritten meanwhile.
    pub(crate) fn void(&mut self, Written { at, frame }: Written) {
        if self.at - at > self.capacity || !FaultPoint::VoidFailed.is_enabled() {
            return;
        }
        self.put_ring(at, &Frame { is_void: true, ..frame }.encode(self.key));
        self.write_back_ring(at, HEAD as usize);
        if FaultPoint::FenceVoid.is_enabled() {
            self.medium.fence();
        }
    }

    /// Marks the sector in which a frame begins, if none has begun there. The frame's bytes come
    /// after `offset`.
    fn mark(&mut self, offset: u64) {
        let sector = self.at / (self.capacity / MARKS);
        if self.marked.is_none_or(|last| last < sector) {
            self.marked = Some(sector);
            let (committed, at) = (self.committed, (self.at % self.capacity) as u32);
            let mark = Mark { offset, committed, at };
            let slot = layout::mark_at(sector % MARKS);
            self.put(slot, &mark.encode(self.key));
        }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.medium.write(at, bytes);
        self.medium.write_back(at, bytes.len());
    }

    /// Stores bytes of the ring.
    fn put_ring(&mut self, at: u64, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(self.until_end(at, bytes.len()));
        self.medium.write(DATA + at % self.capacity, first);
        if !rest.is_empty() {
            self.medium.write(DATA, rest);
        }
    }

    fn write_back_ring(&mut self, at: u64, len: usize) {
        let first = self.until_end(at, len);
        self.medium.write_back(DATA + at % self.capacity, first);
        if first < len {
            self.medium.write_back(DATA, len - first);
        }
    }

    /// Returns how many of `len` bytes from a place on are before the ring's end.
    fn until_end(&self, at: u64, len: usize) -> usize {
        len.min((self.capacity - at % self.capacity) as usize)
    }
}

const _: () = assert!(DATA.is_multiple_of(ALIGN) && HEAD.is_multiple_of(ALIGN));

#[cfg(test)]
mod tests;
