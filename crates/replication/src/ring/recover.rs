//! What a ring says after a crash.
//!
//! After a crash each shard's word holds the offset of its last surviving commit. A frame *counts*
//! if its commit survived, that is, if its end is not beyond the word of its home shard. Void
//! frames and frames without a home always count. No replica is sent a frame, or anything after it,
//! before the frame's commit is durable. So a frame that does not count was never sent, and nothing
//! after it was. If it lies before the end of the data's place, it is replaced by padding, because
//! commits of other shards follow it. If it lies after that, the stream ends there: frames without
//! a home may follow, but they were made for data that was lost. A replica that has more than what
//! is before the first such frame got it from another server, of whose data this is an older copy.
//!
//! The chain of frames begins at one of the marks, at the oldest from which it reaches the end of
//! the data's place. Frames before it were overwritten. If it begins after the place, because
//! nothing but PINGs and the like was appended since, neither it nor a mark may have a commit after
//! the place: else the ring is newer than the data, which may be a copy.
//!
//! A new ring may belong to the same place as the one before it, if it began where that had begun,
//! since nothing was appended in between. The old one got nothing more from then on, so the one
//! that goes further is the one that was in use.
//!
//! The bytes may be anything: work and memory are bounded by their number.

use super::layout::{DATA, Frame, HEAD, Header, MARKS, Mark};
use crate::Id;
use crate::fault_points::FaultPoint;
use crate::padding::padding;

/// No stream gets so far: an offset from here on makes no sense.
const FAR: u64 = 1 << 58;

/// The place of the data in the stream, as the store knows it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The ID of the history.
    pub id: Id,
    /// The offset at which the place began.
    pub begun: u64,
    /// The offset of the last commit.
    pub end: u64,
    /// For each shard the offset of the last commit of which it is the home; 0 if there is none.
    pub shards: &'a [u64],
}

/// The history that a ring has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its ID.
    pub id: Id,
    /// The offset at which the place began that belongs to it.
    pub begun: u64,
    /// The boot of the machine in which it was begun.
    pub boot: [u8; 16],
}

/// The end of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The offset of its end.
    pub end: u64,
    /// The offset up to which it may have been sent. A replica that has more got it from another
    /// server.
    pub until: u64,
    /// The bytes before that.
    pub bytes: Vec<u8>,
}

/// Returns the history of a ring; none if the bytes are no ring.
pub fn find(bytes: &[u8]) -> Option<Found> {
    let Header { id, begun, boot, .. } = Header::decode(bytes)?;
    Some(Found { id: Id::from_random(id), begun, boot })
}

/// Returns what [`recover`] returns of the ring that goes furthest, with the number of that ring.
pub fn recover_furthest<'b>(
    rings: impl IntoIterator<Item = &'b [u8]>,
    place: &Place<'_>,
    most: u64,
) -> Option<(usize, Recovered)> {
    let of_ring = |(number, ring)| Some((number, recover(ring, place, most)?));
    let mut recovered = rings.into_iter().enumerate().filter_map(of_ring);
    if !FaultPoint::TakeFurthest.is_enabled() {
        return recovered.next();
    }
    recovered.max_by_key(|(_, Recovered { end, bytes, .. })| (*end, bytes.len()))
}

/// Returns the end of the stream after a crash, with at most about `most` bytes before it; none if
/// the bytes are not the ring of this place, or do not reach up to it.
pub fn recover(bytes: &[u8], place: &Place<'_>, most: u64) -> Option<Recovered> {
    let header = Header::decode(bytes)?;
    if (header.id, header.begun) != (place.id.to_bytes(), place.begun) || place.end >= FAR {
        return None;
    }
    let ring = Bytes { bytes: bytes.get(DATA as usize..)?, header };
    let mut marks: Vec<Mark> =
        (0..MARKS).filter_map(|sector| Mark::decode(bytes, sector, header.key)).collect();
    marks.sort_by_key(|mark| mark.offset);
    if marks.is_empty() && place.end == place.begun {
        return Some(Recovered { end: place.end, until: place.end, bytes: Vec::new() });
    }
    let is_newer =
        FaultPoint::RefuseNewer.is_enabled() && marks.iter().any(|mark| mark.committed > place.end);
    // A chain that has broken is not tried again from within.
    let mut broken = 0;
    for mark in marks {
        if mark.offset < broken {
            continue;
        }
        let (mut frames, end) = ring.chain(mark);
        let is_beyond = mark.offset > place.end;
        if let Some(first) = frames.iter().position(|(_, frame)| !counts(frame, place)) {
            if is_beyond && FaultPoint::RefuseNewer.is_enabled() {
                return None;
            }
            if FaultPoint::CutAtUncounted.is_enabled() {
                let in_data = frames.partition_point(|(_, frame)| frame.end <= place.end);
                frames.truncate(first.max(in_data));
            }
        }
        if is_newer && is_beyond {
            return None;
        }
        let last = frames.last().map_or(mark.offset, |(_, frame)| frame.end);
        if last == place.end || last > place.end && !frames.is_empty() {
            // With the frame in which the wanted bytes begin.
            let from = last.saturating_sub(most.max(1));
            let first = frames.partition_point(|(_, frame)| frame.end <= from);
            let Recovered { end, bytes, .. } = ring.collect(&frames[first..], place);
            let uncounted = frames.iter().find(|(_, frame)| !counts(frame, place));
            let until = uncounted
                .filter(|_| FaultPoint::RefuseAfterUncounted.is_enabled())
                .map_or(end, |(_, frame)| frame.start().min(end));
            return Some(Recovered { end, until, bytes });
        }
        broken = end.max(mark.offset.saturating_add(1));
    }
    None
}

/// Returns true if a frame is in the data, or changes none.
fn counts(frame: &Frame, place: &Place<'_>) -> bool {
    match frame.home {
        _ if frame.is_void || frame.end <= place.begun => true,
        _ if !FaultPoint::CountByWord.is_enabled() => true,
        None => true,
        Some(home) => place.shards.get(usize::from(home)).is_some_and(|word| frame.end <= *word),
    }
}

/// The bytes of a ring.
struct Bytes<'a> {
    bytes: &'a [u8],
    header: Header,
}

impl Bytes<'_> {
    /// Returns the frames from a mark on, each with its place, as far as they follow one another,
    /// and the offset of the end of the last.
    fn chain(&self, mark: Mark) -> (Vec<(u64, Frame)>, u64) {
        let (mut at, mut offset) = (u64::from(mark.at), mark.offset);
        let (mut frames, mut walked) = (Vec::new(), 0);
        while let Some(frame) = self.frame(at) {
            walked += frame.size();
            if offset.checked_add(frame.len.into()) != Some(frame.end)
                || frame.end >= FAR
                || walked > self.header.capacity
            {
                break;
            }
            frames.push((at, frame));
            offset = frame.end;
            at += frame.size();
        }
        (frames, offset)
    }

    fn frame(&self, at: u64) -> Option<Frame> {
        let mut head = [0; HEAD as usize];
        let mut to = &mut head[..];
        for part in self.range(at, HEAD) {
            let (now, later) = to.split_at_mut(part.len());
            now.copy_from_slice(part);
            to = later;
        }
        Frame::decode(&head, self.header.key)
    }

    /// Returns the two parts of a range, at most as long as the ring.
    fn range(&self, at: u64, len: u64) -> [&[u8]; 2] {
        let capacity = self.header.capacity;
        let (at, len) = (at % capacity, len.min(capacity));
        let first = len.min(capacity - at);
        let (at, first, rest) = (at as usize, first as usize, (len - first) as usize);
        [&self.bytes[at..at + first], &self.bytes[..rest]]
    }

    /// Returns the bytes of frames, of which the last counts: as many as there are without a gap.
    fn collect(&self, frames: &[(u64, Frame)], place: &Place<'_>) -> Recovered {
        let mut bytes = Vec::new();
        let mut end = frames.first().map_or(place.end, |(_, frame)| frame.start());
        for (at, frame) in frames {
            let before = std::mem::replace(&mut end, frame.end);
            if frame.is_bare {
                bytes.clear();
                continue;
            }
            if frame.is_void || !counts(frame, place) {
                if !FaultPoint::PadUncounted.is_enabled() {
                    continue;
                }
                match padding(frame.len as usize) {
                    Some(padding) => bytes.extend_from_slice(&padding),
                    None => bytes.clear(),
                }
                continue;
            }
            let parts = self.range(at + HEAD, frame.len.into());
            let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
            if sum == frame.body {
                parts.iter().for_each(|part| bytes.extend_from_slice(part));
            } else if frame.end > place.end {
                // It was not durable yet, so it was not shown.
                end = before;
                break;
            } else {
                bytes.clear();
            }
        }
        Recovered { end, until: end, bytes }
    }
}
