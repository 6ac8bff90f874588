//! Parts of a region with one owner each, which can therefore be used without `unsafe`.
//!
//! A region is shared: code that stores into it promises that nobody else accesses the bytes. A
//! program that measures the medium needs less: each of its threads permanently has its own part.
//! [`Region::into_partitions`] consumes the region, so that a partition's bytes can only be reached
//! through the partition; a store borrows the partition mutably, so that no slice of it exists
//! meanwhile. What the heap promises block by block, the borrow checker proves here.
//!
//! Accesses outside the partition are treated like those outside a region: reads return nothing,
//! writes are ignored, and [`Partition::faults`] counts them.

use crate::domain::Domain;
use crate::lines::LINE;
use crate::mapping::PAGE;
use crate::region::Region;
use crate::stream;
use std::sync::Arc;

/// A part of a region that nobody else accesses. It begins on a page boundary.
#[derive(Debug)]
pub struct Partition {
    region: Arc<Region>,
    from: u64,
    len: u64,
}

impl Region {
    /// Divides the region into `count` partitions of equal length, a multiple of the page size. The
    /// rest at the end belongs to nobody; partitions of a region that is too short are empty.
    pub fn into_partitions(self, count: usize) -> Vec<Partition> {
        let len = (self.len() / count.max(1) as u64) & !(PAGE - 1);
        let region = Arc::new(self);
        let partition =
            |n: usize| Partition { region: Arc::clone(&region), from: n as u64 * len, len };
        (0..count).map(partition).collect()
    }
}

impl Partition {
    /// Returns the number of bytes that may be read and written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns what makes a store durable here.
    pub fn domain(&self) -> Domain {
        self.region.domain()
    }

    /// Returns true if the domain is claimed on a medium that loses its bytes with power.
    pub fn emulated(&self) -> bool {
        self.region.emulated()
    }

    /// Returns the name of the instruction that writes a line back.
    pub fn write_back(&self) -> &'static str {
        self.region.write_back()
    }

    /// Returns the number of accesses refused so far, in all partitions of the region.
    pub fn faults(&self) -> u64 {
        self.region.faults()
    }

    /// Returns true if a fence failed in any partition of the region: nothing in it may be
    /// considered durable.
    pub fn failed(&self) -> bool {
        self.region.failed()
    }

    /// Returns the number of pages of the region that the medium has lost: what is stored there
    /// reaches no medium.
    pub fn media_errors(&self) -> u64 {
        self.region.media_errors()
    }

    /// Returns the place of a range of the partition in the region.
    #[inline]
    fn place(&self, off: u64, len: usize) -> Option<u64> {
        let inside = off.checked_add(len as u64).is_some_and(|end| end <= self.len);
        if !inside {
            self.region.fault();
        }
        inside.then(|| self.from + off)
    }

    /// Returns the bytes of a range; an empty slice if it is not inside.
    #[inline]
    pub fn bytes(&self, off: u64, len: usize) -> &[u8] {
        match self.place(off, len) {
            // SAFETY: a range of this partition, which nobody changes while it is borrowed: stores
            // borrow it mutably, and the region has no other way in (`into_partitions`).
            Some(at) => unsafe { self.region.bytes(at, len) },
            None => &[],
        }
    }

    /// Copies bytes to `off`, through the cache.
    #[inline]
    pub fn store(&mut self, off: u64, src: &[u8]) {
        let Some(at) = self.place(off, src.len()) else { return };
        // SAFETY: a range of this partition, which is borrowed mutably: nobody else accesses it,
        // and no slice of it lives.
        unsafe { self.region.write(at, src) };
    }

    /// Copies whole lines to `off` past the cache, however few they are; on a CPU without
    /// non-temporal stores, copies them through the cache and flushes them. A fence completes it.
    /// Offset and length must be multiples of [`LINE`]; otherwise the copy is refused, as outside
    /// the partition.
    #[inline]
    pub fn stream(&mut self, off: u64, src: &[u8]) {
        let whole = off.is_multiple_of(LINE) && src.len().is_multiple_of(LINE as usize);
        let Some(at) = self.place(off, src.len()).filter(|_| whole) else { return };
        if stream::PAST_THE_CACHE {
            // SAFETY: whole lines of this partition, which is borrowed mutably.
            unsafe { self.region.stream_lines(at, src) };
        } else {
            // SAFETY: as above.
            unsafe { self.region.write(at, src) };
            self.region.flush(at, src.len());
        }
    }

    /// Begins to make the lines of a range durable; the calling thread's next fence completes it.
    #[inline]
    pub fn flush(&mut self, off: u64, len: usize) {
        if let Some(at) = self.place(off, len) {
            self.region.flush(at, len);
        }
    }

    /// Completes the calling thread's flushes, like [`Region::fence`].
    #[inline]
    pub fn fence(&self) {
        self.region.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::touched;
    use crate::{DomainRequest, MapOptions};

    fn partitions(count: usize, pages: u64) -> (tempfile::TempDir, Vec<Partition>) {
        let dir = tempfile::tempdir().unwrap();
        let domain = DomainRequest::Clwb;
        let options = MapOptions { emulate: true, domain, ..MapOptions::new(pages * PAGE) };
        let region = Region::open(dir.path().join("pool"), &options).unwrap();
        region.grow(pages * PAGE).unwrap();
        (dir, region.into_partitions(count))
    }

    #[test]
    fn partitions_are_whole_pages_side_by_side() {
        let check = |count, pages, expect| {
            let (_dir, partitions) = partitions(count, pages);
            assert_eq!(partitions.len(), count);
            assert!(partitions.iter().all(|partition| partition.len() == expect), "{partitions:?}");
            assert!(partitions.windows(2).all(|pair| pair[0].from + expect == pair[1].from));
        };
        check(1, 4, 4 * PAGE);
        check(3, 10, 3 * PAGE);
        check(5, 4, 0);
        check(0, 4, 0);
    }

    #[test]
    fn what_one_partition_stores_no_other_one_sees() {
        let (dir, mut partitions) = partitions(2, 4);
        let len = partitions[0].len() as usize;
        partitions[0].store(0, &vec![1; len]);
        partitions[1].stream(0, &vec![2; len]);
        partitions.iter().for_each(Partition::fence);
        assert!(partitions[0].bytes(0, len).iter().all(|byte| *byte == 1));
        assert!(partitions[1].bytes(0, len).iter().all(|byte| *byte == 2));
        let file = std::fs::read(dir.path().join("pool")).unwrap();
        assert_eq!(file, [vec![1; len], vec![2; len]].concat());
    }

    #[test]
    fn a_flush_writes_back_the_lines_of_its_own_partition() {
        let (_dir, mut partitions) = partitions(2, 2);
        touched::take();
        partitions[1].flush(60, 8);
        assert_eq!(touched::take(), [PAGE, PAGE + LINE]);
    }

    #[test]
    fn what_is_outside_is_refused_and_counted() {
        let (_dir, mut partitions) = partitions(2, 2);
        let before = partitions[1].bytes(0, PAGE as usize).to_vec();
        partitions[0].store(PAGE - 1, &[9; 2]);
        partitions[0].stream(PAGE, &[9; 64]);
        partitions[0].flush(u64::MAX, 2);
        assert_eq!(partitions[0].bytes(PAGE, 1), b"");
        assert_eq!(partitions[0].faults(), 4);
        assert_eq!(partitions[1].bytes(0, PAGE as usize), before);
        partitions[0].stream(8, &[9; 64]);
        partitions[0].stream(0, &[9; 63]);
        assert!(partitions[0].bytes(0, 128).iter().all(|byte| *byte == 0));
    }
}
