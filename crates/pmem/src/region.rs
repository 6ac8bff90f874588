//! A range of bytes addressed by offset, and the only way to change persistent memory.
//!
//! Reads and writes are checked against the length, since an offset may come from a damaged pool:
//! outside the region, reads return zero, writes are ignored, and [`Region::faults`] counts both.
//! Words are accessed as relaxed atomics, so that a reader that races with a writer sees an old or
//! a new word, never a mixture; the locks of the layers above order words.
//!
//! The region owns the mapping, the file and its lock. Its length only grows, and only after the
//! medium has provided the space.

use crate::cpu::{self, WriteBack};
use crate::domain::Domain;
#[cfg(feature = "emulate-media")]
use crate::emulation::Emulation;
use crate::error::GrowError;
use crate::fault_points::FaultPoint;
use crate::growth::{Backing, extend, is_synced, prefault};
use crate::guess;
use crate::inspect::RecordLosses;
use crate::journal::Journal;
use crate::locked::LockedFile;
use crate::mapping::{HUGE, Mapping, PAGE};
use crate::media::Watch;
#[cfg(feature = "sim")]
use crate::recorder::{RecordedFile, Recorder};
use crate::scheduler::lock;
use crate::syncs::Syncs;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
#[cfg(feature = "sim")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A mapped range of bytes.
pub struct Region {
    /// Dropped before the mapping, whose addresses it contains.
    pub(crate) watch: Watch,
    pub(crate) mapping: Mapping,
    len: AtomicU64,
    /// The length that is known to be durable: space that an earlier process allocated may not be.
    synced_len: AtomicU64,
    pub(crate) domain: Domain,
    emulated: bool,
    pub(crate) device: bool,
    pub(crate) write_back: WriteBack,
    faults: AtomicU64,
    failed: AtomicBool,
    pub(crate) syncs: Syncs,
    /// Identifies the region in what threads remember.
    pub(crate) id: u64,
    pub(crate) growing: Mutex<()>,
    /// The file was seen to report where a hole is.
    pub(crate) reports_holes: AtomicBool,
    pub(crate) repairing: Mutex<()>,
    pub(crate) record: OnceLock<RecordLosses>,
    pub(crate) file: Option<LockedFile>,
    /// The journal, in the domain `journal`.
    pub(crate) journal: Option<Box<Journal>>,
    /// The expected path of the journal of a file that is inspected.
    pub(crate) journal_to_read: Option<PathBuf>,
    #[cfg(feature = "sim")]
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    #[cfg(feature = "emulate-media")]
    pub(crate) emulation: Option<Box<Emulation>>,
}

/// What distinguishes one region from another when it is created.
pub(crate) struct Parts {
    pub(crate) watch: Watch,
    pub(crate) mapping: Mapping,
    pub(crate) len: u64,
    pub(crate) domain: Domain,
    pub(crate) emulated: bool,
    pub(crate) device: bool,
    pub(crate) file: Option<LockedFile>,
}

impl Region {
    pub(crate) fn from_parts(parts: Parts) -> Region {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Region {
            watch: parts.watch,
            mapping: parts.mapping,
            len: AtomicU64::new(parts.len),
            synced_len: AtomicU64::new(if parts.device { parts.len } else { 0 }),
            domain: parts.domain,
            emulated: parts.emulated,
            device: parts.device,
            write_back: cpu::detect(),
            faults: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            syncs: Syncs::default(),
            id: NEXT_ID.fetch_add(1, Relaxed),
            growing: Mutex::new(()),
            reports_holes: AtomicBool::new(false),
            repairing: Mutex::new(()),
            record: OnceLock::new(),
            file: parts.file,
            journal: None,
            journal_to_read: None,
            #[cfg(feature = "sim")]
            recorder: None,
            #[cfg(feature = "emulate-media")]
            emulation: None,
        }
    }

    pub(crate) fn with_journal(mut self, journal: Journal) -> Region {
        self.journal = Some(Box::new(journal));
        self
    }

    #[cfg(feature = "sim")]
    pub(crate) fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Region {
        self.recorder = Some(recorder);
        self
    }

    /// Returns the number of bytes that may be read and written.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Returns true if the region has no bytes, as in a new file.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes up to which the region can grow.
    pub fn reserved(&self) -> u64 {
        self.mapping.len()
    }

    /// Returns what makes a store durable here.
    #[inline]
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Returns true if `clwb` or `eadr` is claimed on a medium that loses its bytes with power.
    pub fn emulated(&self) -> bool {
        self.emulated
    }

    /// Returns true if this is a device, which has its full length and unknown content from the
    /// start.
    pub fn is_device(&self) -> bool {
        self.device
    }

    /// Returns true if stores stay in memory: this is a copy of a file that is inspected.
    pub fn is_private(&self) -> bool {
        self.mapping.is_copy()
    }

    /// Returns the name of the instruction that writes a line back; the domain determines whether
    /// it is used.
    pub fn write_back(&self) -> &'static str {
        self.write_back.name()
    }

    /// Returns the number of accesses refused so far because they were out of range or misaligned.
    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Returns true if a fence failed. The data that it should have made durable may be lost, so
    /// nothing may be acknowledged.
    #[inline]
    pub fn failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Returns the address of `[off, off + len)` if it is inside.
    #[inline]
    pub(crate) fn place(&self, off: u64, len: usize) -> Option<*mut u8> {
        let end = off.wrapping_add(len as u64);
        if end >= off && end <= self.len() {
            Some(self.mapping.base().wrapping_add(off as usize))
        } else {
            self.fault();
            None
        }
    }

    /// Returns the `N` words at `off`, a multiple of their size, if they are inside. `N` is a power
    /// of two.
    #[inline]
    fn words<const N: usize>(&self, off: u64) -> Option<&[AtomicU64; N]> {
        const { assert!(N.is_power_of_two()) };
        let size = 8 * N as u64;
        // A range that begins at a multiple of its size below the last whole multiple ends inside.
        if !off.is_multiple_of(size) || off >= self.len() & !(size - 1) {
            self.fault();
            return None;
        }
        let at = self.mapping.base().wrapping_add(off as usize);
        // SAFETY: bytes inside the mapping, which lives as long as `self`, aligned (checked above,
        // and the mapping's start is), initialised by the kernel. Non-atomic writes to them are
        // excluded by the contract of `write`: code that may meet one uses `guess`.
        Some(unsafe { &*at.cast() })
    }

    #[inline]
    fn word(&self, off: u64) -> Option<&AtomicU64> {
        self.words::<1>(off).map(|[word]| word)
    }

    /// Ends acknowledgements: from here on every fence counts as failed.
    pub fn fail(&self) {
        self.failed.store(true, Relaxed);
    }

    #[cold]
    pub(crate) fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    /// Returns the word at `off`, a multiple of 8; if there is none, returns 0 and counts a fault.
    #[inline]
    pub fn load(&self, off: u64) -> u64 {
        #[cfg(feature = "emulate-media")]
        self.charge_read(off, 8);
        self.word(off).map_or(0, |word| word.load(Relaxed))
    }

    /// Returns the first eight bytes, with zeros for bytes that the file does not have.
    pub fn first_bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        match &self.file {
            Some(file) if self.len() < 8 => {
                let _ = file.read_at(&mut bytes, 0);
            }
            _ if self.len() < 8 => {}
            _ => bytes = self.load(0).to_le_bytes(),
        }
        bytes
    }

    /// Returns the word at `off` as of some moment, while another thread may be writing there; 0 if
    /// there can be no word.
    ///
    /// It only decides what to look at first, and is never counted as a fault. If the offset is out
    /// of date, the place may be a hole ([`Region::punch`]): a file system in memory allocates a
    /// page to read one, and if it is full that is a media error, which stops the store but loses
    /// nothing.
    #[inline]
    pub fn guess(&self, off: u64) -> u64 {
        self.guess_words::<1>(off)[0]
    }

    /// Like [`Region::guess`], for each of the eight words of the line at `off`; zeros if there can
    /// be no line.
    #[inline]
    pub fn guess_line(&self, off: u64) -> [u64; 8] {
        self.guess_words(off)
    }

    #[inline]
    fn guess_words<const N: usize>(&self, off: u64) -> [u64; N] {
        #[cfg(feature = "emulate-media")]
        self.charge_read(off, 8 * N);
        let size = 8 * N as u64;
        if !off.is_multiple_of(size) || off >= self.len() & !(size - 1) {
            return [0; N];
        }
        let at: *const u64 = self.mapping.base().wrapping_add(off as usize).cast();
        // SAFETY: `N` words inside of the mapping (a range that begins at a multiple of its size
        // below the last whole multiple ends inside), which begins at a page and lives as long as
        // `self`.
        std::array::from_fn(|i| unsafe { guess::word(at.wrapping_add(i)) })
    }

    /// Returns the eight words of the line at `off`, a multiple of 64; if there is none, returns
    /// zeros and counts a fault.
    #[inline]
    pub fn line(&self, off: u64) -> [u64; 8] {
        #[cfg(feature = "emulate-media")]
        self.charge_read(off, 64);
        match self.words::<8>(off) {
            Some(words) => std::array::from_fn(|i| words[i].load(Relaxed)),
            None => [0; 8],
        }
    }

    /// Returns a bit mask of the eight words of the line at `off`, a multiple of 64, that have
    /// `tag` in their high 16 bits. If there is no line, returns 0 and counts a fault.
    #[inline]
    pub fn tagged(&self, off: u64, tag: u16) -> u8 {
        let Some(words) = self.words::<8>(off) else { return 0 };
        let wanted = u64::from(tag) << 48;
        // From the last to the first, so that later shifts move each bit to its place.
        let bits = words
            .iter()
            .rev()
            .fold(0u32, |bits, word| bits << 1 | u32::from(word.load(Relaxed) ^ wanted < 1 << 48));
        bits as u8
    }

    /// Returns the bytes of a range; if it is not inside, returns an empty slice and counts a
    /// fault.
    ///
    /// # Safety
    /// Nobody changes these bytes while the slice lives.
    #[inline]
    pub unsafe fn bytes(&self, off: u64, len: usize) -> &[u8] {
        #[cfg(feature = "emulate-media")]
        self.charge_read(off, len);
        match self.place(off, len) {
            // SAFETY: the range is mapped for as long as `self` lives, and nobody writes to it
            // (caller).
            Some(at) => unsafe { std::slice::from_raw_parts(at, len) },
            None => &[],
        }
    }

    /// Returns the offset of a slice of [`Region::bytes`]; `None` if it is from elsewhere.
    pub fn offset_of(&self, bytes: &[u8]) -> Option<u64> {
        let from = (bytes.as_ptr() as usize).checked_sub(self.mapping.base() as usize)? as u64;
        (from + bytes.len() as u64 <= self.len()).then_some(from)
    }

    /// Returns true if all words of a range, from a multiple of 8 on, are zero. Does not read holes
    /// of a file.
    pub fn is_zero(&self, from: u64, to: u64) -> bool {
        let mut at = from;
        while at < to {
            let data = match &self.file {
                Some(file) if !self.device => next_data(file, at),
                _ => at,
            };
            let end = to.min(data.saturating_add(HUGE));
            if (data & !7..end).step_by(8).any(|at| self.load(at) != 0) {
                return false;
            }
            at = end.max(data);
        }
        true
    }

    /// Stores a word at `off`, a multiple of 8, atomically.
    ///
    /// # Safety
    /// No slice of [`Region::bytes`] covers the word.
    #[inline]
    pub unsafe fn store(&self, off: u64, value: u64) {
        let Some(word) = self.word(off) else { return };
        word.store(value, Relaxed);
        self.record_stored(off, 8);
        #[cfg(feature = "emulate-media")]
        self.charge_store(off, 8);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.store(off, &value.to_ne_bytes());
        }
    }

    /// Replaces the word at `off`, a multiple of 8, with the result of `change`. Not atomic with
    /// respect to other writers.
    ///
    /// # Safety
    /// As for [`Region::store`].
    #[inline]
    pub unsafe fn change(&self, off: u64, change: impl FnOnce(u64) -> u64) {
        let Some(word) = self.word(off) else { return };
        #[cfg(feature = "emulate-media")]
        self.charge_read(off, 8);
        let value = change(word.load(Relaxed));
        word.store(value, Relaxed);
        self.record_stored(off, 8);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.store(off, &value.to_ne_bytes());
        }
    }

    /// Copies bytes to `off`.
    ///
    /// # Safety
    /// Nobody else accesses the range meanwhile, except by [`Region::guess`], and no slice of
    /// [`Region::bytes`] covers a part of it.
    #[inline]
    pub unsafe fn write(&self, off: u64, src: &[u8]) {
        let Some(to) = self.place(off, src.len()) else { return };
        // SAFETY: the destination is mapped and nobody else accesses it (caller), so `src` does not
        // overlap it.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), to, src.len()) };
        self.record_stored(off, src.len() as u64);
        #[cfg(feature = "emulate-media")]
        self.charge_store(off, src.len());
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.store(off, src);
        }
    }

    /// Lets `fill` change the bytes of a range in place, and returns the result; if the range is
    /// not inside, returns `None` and counts a fault.
    ///
    /// # Safety
    /// As for [`Region::write`]; and nobody changes the bytes while the slice lives.
    #[inline]
    pub unsafe fn write_with(
        &self,
        off: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Option<&[u8]> {
        let to = self.place(off, len)?;
        // SAFETY: the range is mapped and initialised by the kernel; nobody else accesses it
        // (caller).
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, len) };
        fill(bytes);
        self.record_stored(off, len as u64);
        #[cfg(feature = "emulate-media")]
        self.charge_store(off, len);
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.store(off, bytes);
        }
        Some(bytes)
    }

    /// Reports to a test that bytes of the file were stored.
    #[inline(always)]
    pub(crate) fn record_stored(&self, off: u64, len: u64) {
        if cfg!(any(test, feature = "sim")) && self.file.is_some() && self.journal.is_none() {
            crate::calls::stored(off, len);
        }
    }

    /// Asks the CPU to load the line at `off` soon.
    #[inline]
    pub fn prefetch(&self, off: u64) {
        if off < self.len() {
            #[cfg(feature = "emulate-media")]
            self.charge_prefetch(off);
            cpu::prefetch(self.mapping.base().wrapping_add(off as usize));
        }
    }

    /// Makes the region `new_len` bytes long. The new bytes are zeros and durably allocated, even
    /// if an earlier process allocated them. A longer region, such as a device, stays as it is.
    pub fn grow(&self, new_len: u64) -> Result<(), GrowError> {
        self.grow_by(new_len, |old| {
            if let Some(journal) = &self.journal {
                self.extend_journaled(journal, old, new_len)?;
            } else if let Some(file) = &self.file {
                self.extend_file(&**file, old, new_len)?;
            }
            #[cfg(feature = "sim")]
            if let Some(recorder) = &self.recorder {
                self.extend_file(&RecordedFile(&**recorder), old, new_len)?;
            }
            Ok(())
        })
    }

    /// Grows to `new_len` by means of `extend`, which gets the present length.
    pub(crate) fn grow_by(
        &self,
        new_len: u64,
        extend: impl FnOnce(u64) -> Result<(), GrowError>,
    ) -> Result<(), GrowError> {
        let _one_at_a_time = lock(&self.growing).unwrap_or_else(PoisonError::into_inner);
        let old = self.len();
        if new_len <= self.synced_len.load(Relaxed) {
            return Ok(());
        }
        if new_len > old && (new_len > self.reserved() || self.device) {
            let reserved = if self.device { old } else { self.reserved() };
            return Err(GrowError::BeyondReserve { wanted: new_len, reserved });
        }
        if let Some(found) = self.cut_short() {
            return Err(GrowError::CutShort { wanted: new_len, expected: old, found });
        }
        extend(old)?;
        self.len.store(new_len.max(old), Relaxed);
        self.synced_len.store(new_len.max(old), Relaxed);
        Ok(())
    }

    fn extend_file(&self, file: &dyn Backing, old: u64, new_len: u64) -> Result<(), GrowError> {
        if new_len > old {
            extend(file, self.domain, old, new_len, &|file| self.sync_grown(file))?;
            let from = old & !(PAGE - 1);
            let at = self.mapping.base().wrapping_add(from as usize);
            if !self.recorded() {
                prefault(self.domain, at, (new_len - from) as usize);
            }
        } else if is_synced(self.domain) && FaultPoint::SyncFound.is_enabled() {
            let failed = |errno: rustix::io::Errno| GrowError::Io {
                wanted: new_len,
                step: "sync the length",
                source: errno.into(),
            };
            self.sync_grown(file).map_err(failed)?;
        }
        Ok(())
    }

    #[cfg(feature = "sim")]
    #[inline]
    pub(crate) fn recorded(&self) -> bool {
        self.recorder.is_some()
    }

    #[cfg(not(feature = "sim"))]
    #[inline]
    pub(crate) fn recorded(&self) -> bool {
        false
    }

    /// Returns true if copies may go past the cache: always, except on a medium that does not
    /// distinguish them.
    #[cfg(feature = "sim")]
    #[inline]
    pub(crate) fn streams(&self) -> bool {
        self.recorder.as_ref().is_none_or(|recorder| recorder.streams())
    }

    #[cfg(not(feature = "sim"))]
    #[inline]
    pub(crate) const fn streams(&self) -> bool {
        true
    }
}

/// Returns where a file next has bytes, from `at` on: after its end if there are none, and `at` if
/// this is unknown.
fn next_data(file: &LockedFile, at: u64) -> u64 {
    match seek(&**file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => u64::MAX,
        Err(_) => at,
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
