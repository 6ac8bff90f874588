//! Makes stores durable: flush, fence, copies past the cache.
//!
//! A flush begins and the next fence of the same thread completes; the domain determines what each
//! has to do. A flush is given a range of bytes and covers the lines that [`lines`] returns for it.
//!
//! After a failed fence, [`Region::failed`] stays true: data that should be durable is not, and no
//! later success can change that, since the kernel drops pages that it could not write. It reports
//! them to only one thread: so the fences of several threads sync one after the other (`syncs`),
//! and each sees what was reported to the previous one.

use crate::calls;
use crate::counters::{count_fence, count_lines, count_streamed};
use crate::cpu;
use crate::domain::Domain;
use crate::fault_points::FaultPoint;
use crate::growth::Backing;
use crate::journal;
use crate::lines::{LINE, lines};
use crate::mapping::PAGE;
use crate::pages;
use crate::region::Region;
use crate::stream::{self, cut};
use rustix::mm::{MsyncFlags, msync};
use std::io;
use std::sync::atomic::{Ordering, compiler_fence};

impl Region {
    /// Copies bytes to `off` and starts writing them to the medium: past the cache where that is
    /// faster, otherwise with a flush. They are durable after a fence of the same thread.
    ///
    /// # Safety
    /// As for [`Region::write`].
    pub unsafe fn write_streaming(&self, off: u64, src: &[u8]) {
        let Some(to) = self.place(off, src.len()) else { return };
        let streams = match self.domain {
            Domain::Clwb | Domain::Eadr => stream::PAST_THE_CACHE && self.streams(),
            Domain::Msync | Domain::Journal | Domain::Process | Domain::Volatile => false,
        };
        let (head, body, tail) = cut(off, src.len());
        if body == 0 || !streams {
            // SAFETY: the caller's promise is the same.
            unsafe { self.write(off, src) };
            self.flush_parts(off, head, body, tail);
            return;
        }
        let (first, rest) = src.split_at(head);
        let (whole, last) = rest.split_at(body);
        // SAFETY: the head of a range that the caller may write.
        unsafe { self.write(off, first) };
        // SAFETY: `cut` gives whole lines from the start of a line, inside the checked range.
        unsafe { stream::copy_lines(to.wrapping_add(head), whole.as_ptr(), body) };
        self.record_streamed(off + head as u64, whole);
        #[cfg(feature = "emulate-media")]
        self.charge_stream(off + head as u64, body);
        // SAFETY: the tail of a range that the caller may write.
        unsafe { self.write(off + (head + body) as u64, last) };
        count_streamed(body as u64);
        if FaultPoint::FlushStreamHead.is_enabled() {
            self.flush(off, head);
        }
        if FaultPoint::FlushStreamTail.is_enabled() {
            self.flush(off + (head + body) as u64, tail);
        }
    }

    /// Copies whole lines and starts writing them to the medium, past the cache if possible, for
    /// data that is not read again soon. Returns true if they still have to be flushed; otherwise
    /// counts them as streamed.
    ///
    /// # Safety
    /// As for [`Region::write`].
    #[inline]
    pub unsafe fn write_lines(&self, off: u64, src: &[u8]) -> bool {
        let whole = off.is_multiple_of(LINE) && src.len().is_multiple_of(LINE as usize);
        let streams = self.domain == Domain::Clwb && stream::PAST_THE_CACHE && self.streams();
        if !whole || !streams {
            // SAFETY: the caller's promise is the same.
            unsafe { self.write(off, src) };
            return true;
        }
        if let Some(to) = self.place(off, src.len()) {
            // SAFETY: whole lines of a range that the caller may write.
            unsafe { stream::copy_lines(to, src.as_ptr(), src.len()) };
            self.record_streamed(off, src);
            #[cfg(feature = "emulate-media")]
            self.charge_stream(off, src.len());
            count_streamed(src.len() as u64);
        }
        false
    }

    /// Copies whole lines past the cache, however few they are: to measure the threshold.
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

    /// Reports to a test and to a simulation that whole lines were stored past the cache.
    #[inline(always)]
    fn record_streamed(&self, off: u64, bytes: &[u8]) {
        self.record_stored(off, bytes.len() as u64);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            match FaultPoint::StreamBody.is_enabled() {
                true => recorder.stream(off, bytes),
                false => recorder.store(off, bytes),
            }
        }
    }

    /// Flushes a streamed range that went through the cache, and counts it as if it had not:
    /// budgets do not depend on the domain.
    fn flush_parts(&self, off: u64, head: usize, body: usize, tail: usize) {
        if body == 0 || FaultPoint::FlushStreamHead.is_enabled() {
            self.flush(off, head);
        }
        if body > 0 && self.domain != Domain::Volatile && FaultPoint::StreamBody.is_enabled() {
            self.flush_checked(off + head as u64, body);
            count_streamed(body as u64);
        }
        if FaultPoint::FlushStreamTail.is_enabled() {
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

    /// Returns the number of bytes that a flush takes at least: those of a line, or of a word where
    /// the journal does.
    #[inline]
    pub fn flush_unit(&self) -> u64 {
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            return recorder.flush_unit();
        }
        if self.domain == Domain::Journal { size_of::<u64>() as u64 } else { LINE }
    }

    /// Begins to make several units of a flush durable, each given by its offset.
    pub fn flush_units(&self, offsets: &[u64]) {
        if self.domain == Domain::Volatile {
            return;
        }
        let unit = self.flush_unit() as usize;
        let inside = |off: &&u64| self.place(**off, unit).is_some();
        let (mut flushed, mut last) = (0, None);
        for &off in offsets.iter().filter(inside) {
            self.flush_checked(off, unit);
            // Words of one line are mostly listed one after the other.
            flushed += u64::from(last.replace(off / LINE) != Some(off / LINE));
        }
        count_lines(flushed);
    }

    /// Flushes a range inside the region without counting it.
    #[inline]
    fn flush_checked(&self, off: u64, len: usize) {
        #[cfg(feature = "emulate-media")]
        self.charge_flush(off, len);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder
            && self.domain != Domain::Msync
        {
            crate::fault_points::flushed_units(off, len, recorder.flush_unit())
                .for_each(|at| recorder.flush(at));
            return;
        }
        match self.domain {
            Domain::Clwb => self.write_back_lines(off, len),
            Domain::Msync => pages::remember_bytes(self.id, off, len),
            Domain::Journal => journal::remember(self.id, off, len),
            Domain::Eadr | Domain::Process | Domain::Volatile => {}
        }
    }

    #[inline]
    fn write_back_lines(&self, off: u64, len: usize) {
        let lines = lines(off, len);
        #[cfg(test)]
        lines.clone().for_each(touched::record);
        let first = self.mapping.base().wrapping_add((off & !(LINE - 1)) as usize);
        // SAFETY: the lines that hold the bytes of a checked range, in a mapping that starts and
        // ends at a line.
        unsafe { cpu::write_back(self.write_back, first, lines.len()) };
    }

    /// Makes the kernel consider the pages of a range dirty, in the domain where it tracks that: it
    /// considers a page that it could not write clean, and no sync writes it any more.
    ///
    /// # Safety
    /// As for [`Region::store`], of every word of these pages, and nobody else writes to them.
    pub unsafe fn make_dirty(&self, off: u64, len: usize) {
        if self.domain != Domain::Msync || len == 0 {
            return;
        }
        for page in off / PAGE..(off + len as u64).div_ceil(PAGE) {
            let word = page * PAGE;
            // SAFETY: the caller's promise is the same.
            unsafe { self.store(word, self.load(word)) };
        }
    }

    /// Completes the calling thread's flushes: everything that it stored before flushing is durable
    /// in this domain. If that fails, [`Region::failed`] is true from here on.
    #[inline]
    pub fn fence(&self) {
        if self.watch.has_quarantined() {
            self.repair();
        }
        self.drain();
    }

    /// Like [`Region::fence`], except for damaged pages: stores into one are not durable.
    #[inline]
    pub fn drain(&self) {
        if self.domain == Domain::Volatile {
            return;
        }
        count_fence();
        #[cfg(feature = "emulate-media")]
        self.charge_fence();
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder
            && self.domain != Domain::Msync
        {
            recorder.fence();
            return;
        }
        match self.domain {
            Domain::Clwb | Domain::Eadr => cpu::fence(),
            Domain::Msync => self.sync_remembered_pages(),
            Domain::Journal => self.append_flushed(),
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
                _ => self.sync_whole_file(pages),
            };
            if synced.is_err() {
                self.fail();
            }
        });
    }

    /// Syncs the file for the sake of these pages. A simulation counts only on these pages.
    fn sync_whole_file(&self, pages: &[pages::Range]) -> rustix::io::Result<()> {
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            pages.iter().for_each(|(first, end)| recorder.sync(first * PAGE, (end - first) * PAGE));
            return Ok(());
        }
        let _ = pages;
        self.file.as_ref().map_or(Ok(()), |file| Backing::sync(&**file))
    }

    /// Syncs the file when it has grown: the kernel may have failed to write a page of a commit.
    pub(crate) fn sync_grown(&self, file: &dyn Backing) -> rustix::io::Result<()> {
        self.syncs.alone(|| {
            let synced = file.sync();
            if synced.is_err() && self.domain == Domain::Msync {
                self.fail();
            }
            synced
        })
    }

    fn msync_range(&self, off: u64, len: u64) -> rustix::io::Result<()> {
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.sync(off, len);
            return Ok(());
        }
        let at = self.mapping.base().wrapping_add(off as usize);
        calls::sync(off, len, || {
            // SAFETY: writing pages out changes no contents; the range is in this mapping, by whole
            // pages.
            unsafe { msync(at.cast(), len as usize, MsyncFlags::SYNC) }
        })
    }

    /// Makes everything stored so far durable: for a clean close, by a caller who has flushed and
    /// fenced everything that it needs.
    ///
    /// On a device whose domain survives power loss that is already true, and nobody knows which
    /// lines are dirty: writing every line back would take minutes, for words that nobody needs. A
    /// file is synced, since its kernel writes only what is dirty.
    pub fn sync_flushed(&self) -> io::Result<()> {
        let has_all = matches!(self.domain, Domain::Clwb | Domain::Eadr) && !self.emulated();
        if self.device && has_all { Ok(()) } else { self.sync_all() }
    }

    /// Makes everything stored so far durable, whoever stored it and whatever the domain.
    pub fn sync_all(&self) -> io::Result<()> {
        if self.domain == Domain::Volatile || self.is_empty() {
            return Ok(());
        }
        if let Some(journal) = &self.journal {
            return self.sync_journaled(journal);
        }
        self.repair();
        if self.recorded() && self.domain != Domain::Msync {
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

    pub(crate) fn record(line: u64) {
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
    use crate::{Call, Calls, DomainRequest, MapOptions, watch_calls};
    use proptest::prelude::*;
    use rustix::io::Errno;
    use std::sync::Arc;

    const LEN: u64 = 16 * PAGE;

    /// Returns a region whose flushes are instructions, whatever the medium.
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

    /// Treats any file as persistent memory.
    struct PersistentMemory;

    impl Calls for PersistentMemory {
        fn before(&self, _call: Call) -> Result<(), Errno> {
            Ok(())
        }

        fn stored(&self, _at: u64, _len: u64) {}

        fn synced(&self, _at: u64, _len: u64, _well: bool) {}

        fn plays_persistent_memory(&self) -> bool {
            true
        }
    }

    /// Returns a device over `/dev/zero`, which a fake sysfs lists as a DAX device.
    fn device(domain: DomainRequest) -> Region {
        let sysfs = tempfile::tempdir().unwrap();
        let (entry, class) = (sysfs.path().join("dev/char/1:5"), sysfs.path().join("bus/dax"));
        std::fs::create_dir_all(&entry).unwrap();
        std::fs::create_dir_all(&class).unwrap();
        std::os::unix::fs::symlink(class, entry.join("subsystem")).unwrap();
        std::fs::write(entry.join("size"), (2 << 20).to_string()).unwrap();
        let sysfs = sysfs.path().to_owned();
        let options = MapOptions { domain, sysfs, create: false, ..MapOptions::new(LEN) };
        watch_calls(Some(Arc::new(PersistentMemory)));
        let region = Region::open("/dev/zero", &options).unwrap();
        watch_calls(None);
        region
    }

    #[test]
    fn closing_a_device_writes_no_line_back_that_was_flushed() {
        let check = |domain, lines| {
            let region = device(domain);
            assert!(region.is_device());
            touched::take();
            region.sync_flushed().unwrap();
            assert_eq!(touched::take().len(), lines, "{domain:?}");
        };
        check(DomainRequest::Clwb, 0);
        check(DomainRequest::Process, (2 << 20) / 64);
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
            // Without non-temporal stores each line is written back, and counted in the same way.
            let past_the_cache = if stream::PAST_THE_CACHE { streamed } else { 0 };
            let written_back = lines_of(off, len as u64).len() as u64 - past_the_cache;
            prop_assert_eq!(flushed.len() as u64, written_back);
            prop_assert_eq!(counted.lines + streamed, lines_of(off, len as u64).len() as u64);
            prop_assert_eq!(streamed > 0, len >= stream::STREAM_FROM);
        }
    }
}
