//! How many of the entries ever added a group has read, and how many it has still to read. The
//! numbers are unknown if entries in between were deleted individually.

use crate::Error;
use crate::streams::{StreamGroup, StreamHead, StreamId, StreamRef};

/// The data of a stream from which the numbers of its entries follow.
#[derive(Clone, Copy, Debug)]
pub struct StreamProgress {
    head: StreamHead,
    first: StreamId,
}

impl StreamProgress {
    /// Returns the present data of a stream.
    pub fn of(stream: &StreamRef<'_>) -> Result<StreamProgress, Error> {
        let first = stream.first_id()?.unwrap_or(StreamId::MIN);
        Ok(StreamProgress { head: stream.head(), first })
    }

    /// Returns true if an entry from this ID on was deleted individually.
    fn has_hole_from(&self, id: StreamId) -> bool {
        let deleted = self.head.deleted;
        self.head.len > 0 && deleted != StreamId::MIN && self.first <= deleted && id <= deleted
    }

    /// Returns how many entries were added up to an ID, if that is known.
    fn number_of(&self, id: StreamId) -> Option<u64> {
        let StreamHead { len, added, last, deleted, .. } = self.head;
        if added == 0 {
            return Some(0);
        }
        if len == 0 && id <= last || id == last {
            return Some(added);
        }
        let is_whole = deleted == StreamId::MIN || deleted < self.first;
        if id > last || !is_whole || id > self.first {
            return None;
        }
        Some(added.wrapping_sub(len) + u64::from(id == self.first))
    }

    /// Records that a group has read an entry after its last one.
    pub(crate) fn read(&self, group: &mut StreamGroup, id: StreamId) {
        match group.read {
            Some(read) if !self.has_hole_from(id) => group.read = Some(read + 1),
            _ if self.head.added > 0 => group.read = self.number_of(id),
            _ => {}
        }
        group.last = id;
    }

    /// Returns how many entries a group has still to read, if that is known.
    pub fn lag(&self, group: &StreamGroup) -> Option<i64> {
        let added = self.head.added;
        if added == 0 {
            return Some(0);
        }
        let read = match group.read {
            Some(read) if !self.has_hole_from(group.last) => Some(read),
            _ => self.number_of(group.last),
        };
        read.map(|read| added.wrapping_sub(read) as i64)
    }
}
