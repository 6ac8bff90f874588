//! Making stores durable: flush, fence, copies past the cache.
//!
//! A flush begins and the next fence of the same thread completes; what each has to do is the domain's matter. A
//! flush names a range of bytes and covers the lines that [`lines`] gives for it.
//!
//! After a fence that failed, [`Region::failed`] stays true: what was to be durable is not, and no later success
//! can change that, since the kernel forgets pages that it could not write. It tells one thread of them: so the fences of
//! several threads sync one after the other (`syncs`), and each finds what the one before was told.

use crate::counters::{count_fence, count_lines, count_streamed};
use crate::cpu;
use crate::domain::Domain;
use crate::growth::retry;
use crate::lines::{LINE, lines};
use crate::mapping::PAGE;
use crate::pages;
use crate::region::Region;
use crate::step::Step;
use crate::stream::{self, cut};
use rustix::fs::fdatasync;
use rustix::mm::{MsyncFlags, msync};
use std::fs::File;
use std::io;
use std::sync::atomic::{Ordering, compiler_fence};

impl Region {
    /// Copies bytes to `off` on their way to the medium: past the cache where that is faster, else flushed.
    /// After a fence of the same thread they are durable.
    ///
    /// # Safety
    /// As for [`Region::write`].
    pub unsafe fn write_streaming(&self, off: u64, src: &[u8]) {
        let Some(to) = self.place(off, src.len()) else { return };
        let streams = match self.domain {
            Domain::Clwb | Domain::Eadr => stream::PAST_THE_CACHE && !self.recorded(),
            Domain::Msync | Domain::Process | Domain::Volatile => false,
        };
        let (head, body, tail) = cut(off, src.len());
        if body == 0 || !streams {
            // SAFETY: the caller's promise is the same.
            unsafe { self.write(off, src) };
            self.flush_parts(off, (head, body, tail));
            return;
        }
        let (first, rest) = src.split_at(head);
        let (whole, last) = rest.split_at(body);
        // SAFETY: the head of a range that the caller may write.
        unsafe { self.write(off, first) };
        // SAFETY: `cut` gives whole lines from the start of a line, inside the checked range.
        unsafe { stream::copy_lines(to.wrapping_add(head), whole.as_ptr(), body) };
        #[cfg(feature = "emulate-media")]
        self.charge_stream(off + head as u64, body);
        // SAFETY: the tail of a range that the caller may write.
        unsafe { self.write(off + (head + body) as u64, last) };
        count_streamed(body as u64);
        self.flush(off, head);
        self.flush(off + (head + body) as u64, tail);
    }

    /// Copies whole lines on their way to the medium, past the cache where it can be, for what is not read again soon.
    /// Whether they still have to be flushed; counted as streamed if not.
    ///
    /// # Safety
    /// As for [`Region::write`].
    #[inline]
    pub unsafe fn write_lines(&self, off: u64, src: &[u8]) -> bool {
        let whole = off.is_multiple_of(LINE) && src.len().is_multiple_of(LINE as usize);
        let streams = self.domain == Domain::Clwb && stream::PAST_THE_CACHE && !self.recorded();
        if !whole || !streams {
            // SAFETY: the caller's promise is the same.
            unsafe { self.write(off, src) };
            return true;
        }
        if let Some(to) = self.place(off, src.len()) {
            // SAFETY: whole lines of a range that the caller may write.
            unsafe { stream::copy_lines(to, src.as_ptr(), src.len()) };
            #[cfg(feature = "emulate-media")]
            self.charge_stream(off, src.len());
            count_streamed(src.len() as u64);
        }
        false
    }

    /// Copies whole lines past the cache, however few they are: for the measurement of the threshold.
    ///
    /// # Safety
    /// As for [`Region::write`].
    ///
    /// # Panics
    /// If the range is not one of whole lines inside the region.
    #[doc(hidden)]
    pub unsafe fn stream_lines(&self, off: u64, src: &[u8]) {
        assert!(off.is_multiple_of(LINE) && src.len().is_multiple_of(LINE as usize));
        let to = self.place(off, src.len()).expect("a range inside the region");
        // SAFETY: whole lines (asserted) of a range that the caller may write.
        unsafe { stream::copy_lines(to, src.as_ptr(), src.len()) };
    }

    /// Flushes a streamed range that went through the cache, and counts it as if it had not: budgets do not
    /// depend on the domain.
    fn flush_parts(&self, off: u64, (head, body, tail): (usize, usize, usize)) {
        if body == 0 || Step::FlushStreamHead.done() {
            self.flush(off, head);
        }
        if body > 0 && self.domain != Domain::Volatile && Step::StreamBody.done() {
            self.flush_checked(off + head as u64, body);
            count_streamed(body as u64);
        }
        if Step::FlushStreamTail.done() {
            self.flush(off + (head + body) as u64, tail);
        }
    }

    /// Begins to make the lines of a range durable; the calling thread's next fence completes it.
    #[inline]
    pub fn flush(&self, off: u64, len: usize) {
        if self.domain == Domain::Volatile || len == 0 || self.place(off, len).is_none() {
            return;
        }
        count_lines(lines(off, len).len() as u64);
        self.flush_checked(off, len);
    }

    /// Begins to make several lines durable, each given by the offset of its begin.
    pub fn flush_lines(&self, offsets: &[u64]) {
        if self.domain == Domain::Volatile {
            return;
        }
        let inside = |off: &&u64| self.place(**off, LINE as usize).is_some();
        let mut flushed = 0;
        for &off in offsets.iter().filter(inside) {
            self.flush_checked(off, LINE as usize);
            flushed += 1;
        }
        count_lines(flushed);
    }

    /// The flush itself: of a range inside the region, uncounted.
    #[inline]
    fn flush_checked(&self, off: u64, len: usize) {
        #[cfg(feature = "emulate-media")]
        self.charge_flush(off, len);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            crate::step::flushed_lines(off, len).for_each(|line| recorder.flush(line * LINE));
            return;
        }
        match self.domain {
            Domain::Clwb => self.write_back_lines(off, len),
            Domain::Msync => {
                pages::remember(self.id, off / PAGE, (off + len as u64).div_ceil(PAGE));
            }
            Domain::Eadr | Domain::Process | Domain::Volatile => {}
        }
    }

    #[inline]
    fn write_back_lines(&self, off: u64, len: usize) {
        let lines = lines(off, len);
        #[cfg(test)]
        lines.clone().for_each(touched::note);
        let first = self.mapping.base().wrapping_add((off & !(LINE - 1)) as usize);
        // SAFETY: the lines that hold the bytes of a checked range, in a mapping that starts and ends at a line.
        unsafe { cpu::write_back(self.write_back, first, lines.len()) };
    }

    /// Completes the calling thread's flushes: what it stored before flushing is durable in this domain. If that
    /// fails, [`Region::failed`] is true from here on.
    #[inline]
    pub fn fence(&self) {
        if self.domain == Domain::Volatile {
            return;
        }
        count_fence();
        #[cfg(feature = "emulate-media")]
        self.charge_fence();
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.fence();
            return;
        }
        if self.watch.has_fenced_off() {
            self.mend();
        }
        match self.domain {
            Domain::Clwb | Domain::Eadr => cpu::fence(),
            Domain::Msync => self.sync_remembered_pages(),
            Domain::Process | Domain::Volatile => {
                compiler_fence(Ordering::SeqCst);
            }
        }
    }

    fn sync_remembered_pages(&self) {
        let pages = pages::take(self.id);
        if pages.is_empty() {
            return;
        }
        self.syncs.sync(&pages, |pages| {
            let synced = match pages {
                &[(first, end)] => self.msync_range(first * PAGE, (end - first) * PAGE),
                _ => self.file.as_ref().map_or(Ok(()), |file| retry(|| fdatasync(&**file))),
            };
            if synced.is_err() {
                self.fail();
            }
        });
    }

    /// Syncs the file when it has grown: a page of a commit may be among what could not be written.
    pub(crate) fn sync_grown(&self, file: &File) -> rustix::io::Result<()> {
        self.syncs.alone(|| {
            let synced = retry(|| fdatasync(file));
            if synced.is_err() && self.domain == Domain::Msync {
                self.fail();
            }
            synced
        })
    }

    fn msync_range(&self, off: u64, len: u64) -> rustix::io::Result<()> {
        let at = self.mapping.base().wrapping_add(off as usize);
        // SAFETY: writing pages out changes no contents; the range lies in this mapping, by whole pages.
        retry(|| unsafe { msync(at.cast(), len as usize, MsyncFlags::SYNC) })
    }

    /// Makes everything stored so far durable, whatever the domain: for a clean close.
    pub fn sync_all(&self) -> io::Result<()> {
        if self.domain == Domain::Volatile || self.is_empty() {
            return Ok(());
        }
        self.mend();
        if self.recorded() {
            self.flush_checked(0, self.len() as usize);
            self.fence();
            return Ok(());
        }
        if self.device {
            // A device has no dirty pages to sync: its lines are all there is.
            self.write_back_lines(0, self.len() as usize);
            cpu::fence();
            return Ok(());
        }
        let sync = || self.msync_range(0, self.len()).inspect_err(|_| self.fail());
        Ok(self.syncs.alone(sync)?)
    }
}

/// Lets a test see which lines were really written back.
#[cfg(test)]
pub(crate) mod touched {
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    pub(crate) fn note(line: u64) {
        LINES.with_borrow_mut(|lines| lines.push(line));
    }

    pub(crate) fn take() -> Vec<u64> {
        LINES.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::counters;
    use crate::{DomainRequest, MapOptions};
    use proptest::prelude::*;

    const LEN: u64 = 16 * PAGE;

    /// A region whose flushes are instructions, whatever the medium.
    fn emulated() -> (tempfile::TempDir, Region) {
        let dir = tempfile::tempdir().unwrap();
        let options =
            MapOptions { emulate: true, domain: DomainRequest::Clwb, ..MapOptions::new(LEN) };
        let region = Region::open(dir.path().join("pool"), &options).unwrap();
        region.grow(LEN).unwrap();
        (dir, region)
    }

    fn lines_of(off: u64, len: u64) -> Vec<u64> {
        let mut lines: Vec<u64> = (off..off + len).map(|byte| byte & !63).collect();
        lines.dedup();
        lines
    }

    #[test]
    fn a_flush_writes_back_each_line_of_its_range_and_no_other() {
        let (_dir, region) = emulated();
        let before = counters();
        let mut flushed = 0;
        for off in 0..160 {
            for len in 0..=300 {
                region.flush(off, len);
                let expected = lines_of(off, len as u64);
                flushed += expected.len() as u64;
                assert_eq!(touched::take(), expected, "{len} bytes at {off}");
            }
        }
        assert_eq!(counters().since(&before).lines, flushed);
    }

    #[test]
    fn a_flush_outside_the_region_touches_nothing() {
        let (_dir, region) = emulated();
        let check = |off, len| {
            let faults = region.faults();
            region.flush(off, len);
            assert_eq!(touched::take(), [0; 0]);
            assert_eq!(region.faults(), faults + 1, "{len} bytes at {off}");
        };
        check(LEN, 1);
        check(LEN - 8, 9);
        check(u64::MAX, 1);
        check(u64::MAX - 3, 64);
        check(0, LEN as usize + 1);
    }

    #[test]
    fn whole_lines_go_past_the_cache_and_others_are_to_be_flushed() {
        let (_dir, region) = emulated();
        let check = |off: u64, len: usize, past: bool| {
            let source: Vec<u8> = (0..len).map(|n| n as u8 | 1).collect();
            let before = counters();
            // SAFETY: nobody else uses the region.
            let flush = unsafe { region.write_lines(off, &source) };
            region.fence();
            assert_eq!(flush, !past, "{len} bytes at {off}");
            let streamed = if past { len as u64 } else { 0 };
            assert_eq!(counters().since(&before).streamed, streamed);
            // SAFETY: nobody writes to the region any more.
            assert_eq!(unsafe { region.bytes(off, len) }, source);
        };
        check(64, 64, stream::PAST_THE_CACHE);
        check(640, 192, stream::PAST_THE_CACHE);
        check(64, 65, false);
        check(65, 64, false);
        let faults = region.faults();
        // SAFETY: as above.
        unsafe { region.write_lines(LEN, &[1; 64]) };
        assert_eq!(region.faults(), faults + 1);
    }

    #[test]
    fn a_failed_msync_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let options = MapOptions { domain: DomainRequest::Msync, ..MapOptions::new(LEN) };
        let region = Region::open(dir.path().join("pool"), &options).unwrap();
        region.grow(LEN).unwrap();
        region.flush(0, 8);
        region.fence();
        assert!(!region.failed());

        // Pages that are not mapped stand for a medium that fails.
        pages::remember(region.id, 1 << 40, (1 << 40) + 1);
        region.fence();
        assert!(region.failed());

        region.flush(0, 8);
        region.fence();
        assert!(region.failed(), "a later success does not bring back what was lost");
    }

    proptest! {
        #[test]
        fn a_streamed_copy_arrives_and_flushes_what_it_did_not_stream(
            off in 0..200u64, len in 0..3000usize, fill: u8,
        ) {
            let (_dir, region) = emulated();
            let source: Vec<u8> = (0..len).map(|n| fill.wrapping_add(n as u8) | 1).collect();
            let before = counters();
            // SAFETY: nobody else uses the region.
            unsafe { region.write_streaming(off, &source) };
            region.fence();
            let counted = counters().since(&before);
            // SAFETY: nobody writes to the region any more.
            let whole = unsafe { region.bytes(0, LEN as usize) };
            let (start, end) = (off as usize, off as usize + len);
            prop_assert_eq!(&whole[start..end], &source[..]);
            prop_assert!(whole[..start].iter().chain(&whole[end..]).all(|byte| *byte == 0));

            let flushed = touched::take();
            let streamed: u64 = counted.streamed / 64;
            prop_assert_eq!(counted.fences, 1);
            prop_assert_eq!(counted.lines, flushed.len() as u64);
            prop_assert_eq!(counted.lines + streamed, lines_of(off, len as u64).len() as u64);
            prop_assert_eq!(streamed > 0, len >= stream::STREAM_FROM);
        }
    }
}
