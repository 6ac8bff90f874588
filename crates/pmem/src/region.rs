//! A range of bytes addressed by offset, and the only way to change persistent memory.
//!
//! Reads and writes are checked against the length, since an offset may come from a damaged pool: what lies
//! outside reads as zero, is not written, and is counted in [`Region::faults`]. Words are accessed as relaxed
//! atomics, so that a reader that races with a writer sees an old or a new word, never a mixture; ordering
//! between words is the business of the locks above.
//!
//! The region owns the mapping, the file and its lock. Its length only grows, and only after the medium has the
//! room. After a fence that failed, [`Region::failed`] stays true: what was to be durable is not, and no later
//! success can change that.

use crate::counters::{count_fence, count_lines, count_streamed};
use crate::cpu::{self, WriteBack};
use crate::domain::Domain;
use crate::error::GrowError;
use crate::growth::{extend, prefault, retry};
use crate::lines::lines;
use crate::mapping::Mapping;
use crate::pages;
#[cfg(feature = "sim")]
use crate::recorder::Recorder;
use crate::stream::{self, cut};
use rustix::fs::fdatasync;
use rustix::mm::{MsyncFlags, msync};
use std::fs::File;
use std::io;
#[cfg(feature = "sim")]
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, compiler_fence};

/// Bytes of a page, the unit of `msync`.
const PAGE: u64 = 4096;

/// A mapped range of bytes.
pub struct Region {
    mapping: Mapping,
    len: AtomicU64,
    domain: Domain,
    emulated: bool,
    device: bool,
    write_back: WriteBack,
    faults: AtomicU64,
    failed: AtomicBool,
    /// Tells regions apart in what a thread remembers.
    id: u64,
    growing: Mutex<()>,
    file: Option<File>,
    #[cfg(feature = "sim")]
    recorder: Option<Arc<dyn Recorder>>,
}

/// What distinguishes one region from another when it is made.
pub(crate) struct Parts {
    pub(crate) mapping: Mapping,
    pub(crate) len: u64,
    pub(crate) domain: Domain,
    pub(crate) emulated: bool,
    pub(crate) device: bool,
    pub(crate) file: Option<File>,
}

impl Region {
    pub(crate) fn from_parts(parts: Parts) -> Region {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Region {
            mapping: parts.mapping,
            len: AtomicU64::new(parts.len),
            domain: parts.domain,
            emulated: parts.emulated,
            device: parts.device,
            write_back: cpu::detect(),
            faults: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            id: NEXT_ID.fetch_add(1, Relaxed),
            growing: Mutex::new(()),
            file: parts.file,
            #[cfg(feature = "sim")]
            recorder: None,
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Region {
        self.recorder = Some(recorder);
        self
    }

    /// Bytes that may be read and written.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Whether there are none, as in a new file.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes up to which the region can grow.
    pub fn reserved(&self) -> u64 {
        self.mapping.len()
    }

    /// What makes a store durable here.
    #[inline]
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Whether `clwb` or `eadr` is claimed on a medium that loses its bytes with power.
    pub fn emulated(&self) -> bool {
        self.emulated
    }

    /// Whether this is a device, which has its full length from the start and unknown bytes in it.
    pub fn is_device(&self) -> bool {
        self.device
    }

    /// The instruction that writes a line back, by name; the domain says whether it is used.
    pub fn write_back(&self) -> &'static str {
        self.write_back.name()
    }

    /// Accesses refused so far because they were out of range or misaligned.
    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Whether a fence failed. What it was to make durable may be lost, so that nothing may be acknowledged.
    #[inline]
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// The address of `[off, off + len)` if it lies inside.
    #[inline]
    fn place(&self, off: u64, len: usize) -> Option<*mut u8> {
        let end = off.wrapping_add(len as u64);
        if end >= off && end <= self.len() {
            Some(self.mapping.base().wrapping_add(off as usize))
        } else {
            self.fault();
            None
        }
    }

    /// The word at `off` if it lies inside and is aligned.
    #[inline]
    fn word(&self, off: u64) -> Option<&AtomicU64> {
        if !off.is_multiple_of(8) {
            self.fault();
            return None;
        }
        let at = self.place(off, 8)?.cast::<AtomicU64>();
        // SAFETY: eight bytes inside the mapping, which lives as long as `self`, aligned (checked above, and the
        // mapping's start is), initialised by the kernel. Non-atomic accesses to them are excluded by the
        // contracts of `write` and `bytes`.
        Some(unsafe { &*at })
    }

    #[cold]
    fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    /// The word at `off`, a multiple of 8; 0, and counted as a fault, where there is none.
    #[inline]
    pub fn load(&self, off: u64) -> u64 {
        self.word(off).map_or(0, |word| word.load(Relaxed))
    }

    /// The bytes of a range; none, and counted as a fault, if it does not lie inside.
    ///
    /// # Safety
    /// Nobody changes these bytes while the slice lives.
    #[inline]
    pub unsafe fn bytes(&self, off: u64, len: usize) -> &[u8] {
        match self.place(off, len) {
            // SAFETY: the range is mapped for as long as `self` lives, and nobody writes to it (caller).
            Some(at) => unsafe { std::slice::from_raw_parts(at, len) },
            None => &[],
        }
    }

    /// Stores a word at `off`, a multiple of 8, in one piece.
    ///
    /// # Safety
    /// No slice of [`Region::bytes`] covers the word.
    #[inline]
    pub unsafe fn store(&self, off: u64, value: u64) {
        let Some(word) = self.word(off) else { return };
        word.store(value, Relaxed);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.store(off, &value.to_ne_bytes());
        }
    }

    /// Copies bytes to `off`.
    ///
    /// # Safety
    /// Nobody else accesses the range meanwhile, and no slice of [`Region::bytes`] covers a part of it.
    #[inline]
    pub unsafe fn write(&self, off: u64, src: &[u8]) {
        let Some(to) = self.place(off, src.len()) else { return };
        // SAFETY: the destination is mapped and nobody else accesses it (caller), so `src` does not overlap it.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), to, src.len()) };
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.store(off, src);
        }
    }

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
        // SAFETY: the tail of a range that the caller may write.
        unsafe { self.write(off + (head + body) as u64, last) };
        count_streamed(body as u64);
        self.flush(off, head);
        self.flush(off + (head + body) as u64, tail);
    }

    /// Flushes a streamed range that went through the cache, and counts it as if it had not: budgets do not
    /// depend on the domain.
    fn flush_parts(&self, off: u64, (head, body, tail): (usize, usize, usize)) {
        self.flush(off, head);
        if body > 0 && self.domain != Domain::Volatile {
            self.flush_uncounted(off + head as u64, body);
            count_streamed(body as u64);
        }
        self.flush(off + (head + body) as u64, tail);
    }

    /// Begins to make the lines of a range durable; the calling thread's next fence completes it.
    #[inline]
    pub fn flush(&self, off: u64, len: usize) {
        if self.domain == Domain::Volatile || len == 0 {
            return;
        }
        count_lines(lines(off, len).len() as u64);
        self.flush_uncounted(off, len);
    }

    #[inline]
    fn flush_uncounted(&self, off: u64, len: usize) {
        if self.place(off, len).is_none() {
            return;
        }
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            lines(off, len).for_each(|line| recorder.flush(line));
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
        for line in lines(off, len) {
            #[cfg(test)]
            touched::note(line);
            // SAFETY: a line that holds a byte of a checked range, in a mapping that starts and ends at a line.
            unsafe {
                cpu::write_back(
                    self.write_back,
                    self.mapping.base().wrapping_add(line as usize),
                    1,
                );
            }
        }
    }

    /// Completes the calling thread's flushes: what it stored before flushing is durable in this domain. If that
    /// fails, [`Region::failed`] is true from here on.
    #[inline]
    pub fn fence(&self) {
        if self.domain == Domain::Volatile {
            return;
        }
        count_fence();
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.fence();
            return;
        }
        match self.domain {
            Domain::Clwb | Domain::Eadr => cpu::fence(),
            Domain::Msync => self.sync_remembered_pages(),
            Domain::Process | Domain::Volatile => {
                compiler_fence(std::sync::atomic::Ordering::SeqCst);
            }
        }
    }

    fn sync_remembered_pages(&self) {
        let synced = match pages::take(self.id).as_slice() {
            [] => Ok(()),
            &[(first, end)] => self.msync_range(first * PAGE, (end - first) * PAGE),
            _ => self.file.as_ref().map_or(Ok(()), |file| retry(|| fdatasync(file))),
        };
        if synced.is_err() {
            self.failed.store(true, Relaxed);
        }
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
        if self.recorded() {
            self.flush_uncounted(0, self.len() as usize);
            self.fence();
            return Ok(());
        }
        if self.device {
            // A device has no dirty pages to sync: its lines are all there is.
            self.write_back_lines(0, self.len() as usize);
            cpu::fence();
            return Ok(());
        }
        self.msync_range(0, self.len()).inspect_err(|_| self.failed.store(true, Relaxed))?;
        Ok(())
    }

    /// Asks the processor to load the line at `off` soon.
    #[inline]
    pub fn prefetch(&self, off: u64) {
        if off < self.len() {
            cpu::prefetch(self.mapping.base().wrapping_add(off as usize));
        }
    }

    /// Makes the region `new_len` bytes long. The new bytes are zeros and durably allocated. A region that is
    /// as long already, as a device is, stays as it is.
    pub fn grow(&self, new_len: u64) -> Result<(), GrowError> {
        let _one_at_a_time = self.growing.lock().unwrap_or_else(|poison| poison.into_inner());
        let old = self.len();
        if new_len <= old {
            return Ok(());
        }
        if new_len > self.reserved() || self.device {
            let reserved = if self.device { old } else { self.reserved() };
            return Err(GrowError::BeyondReserve { wanted: new_len, reserved });
        }
        if let Some(file) = &self.file {
            extend(file, self.domain, old, new_len)?;
            let from = old & !(PAGE - 1);
            let at = self.mapping.base().wrapping_add(from as usize);
            prefault(self.domain, at, (new_len - from) as usize);
        }
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.grow(new_len);
        }
        self.len.store(new_len, Relaxed);
        Ok(())
    }

    #[cfg(feature = "sim")]
    #[inline]
    fn recorded(&self) -> bool {
        self.recorder.is_some()
    }

    #[cfg(not(feature = "sim"))]
    #[inline]
    fn recorded(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("len", &self.len())
            .field("reserved", &self.reserved())
            .field("domain", &self.domain)
            .field("emulated", &self.emulated)
            .field("file", &self.file)
            .finish_non_exhaustive()
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
