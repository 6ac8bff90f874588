//! Losses of the medium, page by page: quarantined when they are met, repaired at the next fence,
//! and reported to the layer that knows what the bytes meant.
//!
//! An access to bytes that the medium can no longer return (or that the file no longer has) ends in
//! `SIGBUS`. The handler in `signal` calls [`Watched::quarantine`]: it replaces the damaged page
//! with a private one, which has every line that can still be read and zeros for the others, so
//! that the access continues and the neighbours of a lost line are preserved. After that, in
//! ordinary code:
//!
//! - The layer above records the loss where it outlives the process ([`Watched::unrecorded`]).
//! - [`Watched::repair`] writes the page to the file (on persistent memory that clears the error)
//!   and maps the file there again. A fence does this first, so that stores into a private page are
//!   durable after the fence.
//! - The layer above finds out what the lost lines meant, and calls [`Watched::resolve`]. Until
//!   then [`Watched::has_unresolved_losses`] reports that zeros may have been read.
//!
//! Everything here that the handler uses is a fixed table of atomics and system calls: no
//! allocation, and no lock that the interrupted code could hold. Invariants:
//!
//! - a page is written to the file only after its loss was recorded: afterwards the medium no
//!   longer reports it;
//! - `unresolved` is incremented before the private page is there, so that a thread that reads a
//!   zero from it sees the count;
//! - a page is mapped again only under `lock`, and while its bytes are copied it cannot be written
//!   to: a store meanwhile waits in the handler, so that none is lost.

use crate::lines::LINE;
use crate::mapping::PAGE;
use crate::readable;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of regions that are watched at a time.
pub(crate) const REGIONS: usize = 64;
/// Maximum number of unresolved damaged pages of a region; a medium that loses more at once is
/// unusable.
const PAGES: usize = 256;
/// Number of recently write-protected pages that are remembered, for stores that hit them
/// meanwhile.
const RECENT: usize = 256;

/// Bytes of a region that the medium lost. They read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Byte offset in the region, of a line.
    pub at: u64,
    /// Bytes, whole lines.
    pub len: u64,
}

/// A page of a region that lost lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPage {
    /// Byte offset in the region, of a page.
    pub at: u64,
    /// A bit for each lost line; the lowest bit is the first line's.
    pub lines: u64,
}

/// A page that was quarantined.
struct Page {
    at: AtomicU64,
    /// One bit for each line that could not be read.
    lost: AtomicU64,
    /// Whether the loss was recorded where it outlives the process.
    recorded: AtomicBool,
    repaired: AtomicBool,
}

impl Page {
    fn set(&self, page: LostPage, is_known: bool) {
        self.at.store(page.at, Ordering::Relaxed);
        self.lost.store(page.lines, Ordering::Relaxed);
        self.recorded.store(is_known, Ordering::Relaxed);
        self.repaired.store(is_known, Ordering::Relaxed);
    }

    fn get(&self) -> LostPage {
        LostPage { at: self.at.load(Ordering::Relaxed), lines: self.lost.load(Ordering::Relaxed) }
    }
}

/// What is known about one region, where the handler finds it.
pub(crate) struct Watched {
    taken: AtomicBool,
    base: AtomicUsize,
    len: AtomicUsize,
    pub(crate) file: AtomicI32,
    /// The block device below the file, to read lines whose page the file system refuses as a
    /// whole; -1 if there is none.
    device: AtomicI32,
    /// How the file is mapped; 0 means privately, so that nothing is ever written to it.
    flags: AtomicI32,
    lock: AtomicBool,
    /// Number of pages that are quarantined and not repaired.
    quarantined: AtomicUsize,
    /// Number of pages whose loss nobody has looked into.
    unresolved: AtomicUsize,
    /// How many times losses were resolved.
    resolutions: AtomicU64,
    /// Number of pages quarantined since the region was opened.
    total: AtomicU64,
    /// More pages past the file's end were accessed than can be remembered.
    pub(crate) cut_short: AtomicBool,
    pages: [Page; PAGES],
    recent: [AtomicU64; RECENT],
    copies: AtomicUsize,
}

/// What the handler did about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quarantined {
    /// The access can be retried.
    Again,
    /// There is no page for it, or no space to remember one.
    Hopeless,
}

impl Watched {
    const fn new() -> Watched {
        Watched {
            taken: AtomicBool::new(false),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            file: AtomicI32::new(-1),
            device: AtomicI32::new(-1),
            flags: AtomicI32::new(0),
            lock: AtomicBool::new(false),
            quarantined: AtomicUsize::new(0),
            unresolved: AtomicUsize::new(0),
            resolutions: AtomicU64::new(0),
            total: AtomicU64::new(0),
            cut_short: AtomicBool::new(false),
            pages: [const {
                Page {
                    at: AtomicU64::new(0),
                    lost: AtomicU64::new(0),
                    recorded: AtomicBool::new(false),
                    repaired: AtomicBool::new(false),
                }
            }; PAGES],
            recent: [const { AtomicU64::new(u64::MAX) }; RECENT],
            copies: AtomicUsize::new(0),
        }
    }
}

/// All watched regions. The handler searches it; a region that found no free slot is not watched.
pub(crate) static TABLE: [Watched; REGIONS] = [const { Watched::new() }; REGIONS];
/// Used for all unwatched regions: nothing is ever quarantined in it.
static UNWATCHED: Watched = Watched::new();

/// A region's slot in the table; freed when dropped.
pub(crate) struct Watch(&'static Watched);

impl std::ops::Deref for Watch {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        self.0
    }
}

/// How a file is mapped.
pub(crate) struct Mapped {
    pub(crate) base: *mut u8,
    pub(crate) len: u64,
    pub(crate) file: i32,
    pub(crate) device: i32,
    /// Flags of `mmap`; 0 for a private mapping.
    pub(crate) flags: i32,
}

impl Watch {
    /// Watches nothing: for memory without a medium.
    pub(crate) fn none() -> Watch {
        Watch(&UNWATCHED)
    }

    /// Starts watching a mapping of a file. Its descriptors must stay open while this lives.
    pub(crate) fn new(mapped: &Mapped) -> Watch {
        crate::signal::install();
        let free = |slot: &&Watched| !slot.taken.swap(true, Ordering::AcqRel);
        let Some(slot) = TABLE.iter().find(free) else { return Watch::none() };
        slot.file.store(mapped.file, Ordering::Relaxed);
        slot.device.store(mapped.device, Ordering::Relaxed);
        slot.flags.store(mapped.flags, Ordering::Relaxed);
        slot.len.store(mapped.len as usize, Ordering::Relaxed);
        slot.quarantined.store(0, Ordering::Relaxed);
        slot.unresolved.store(0, Ordering::Relaxed);
        slot.total.store(0, Ordering::Relaxed);
        slot.cut_short.store(false, Ordering::Relaxed);
        slot.recent.iter().for_each(|page| page.store(u64::MAX, Ordering::Relaxed));
        slot.base.store(mapped.base as usize, Ordering::Release);
        Watch(slot)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::ptr::eq(self.0, &UNWATCHED) {
            return;
        }
        self.0.base.store(0, Ordering::Release);
        let device = self.0.device.swap(-1, Ordering::Relaxed);
        if device >= 0 {
            // SAFETY: opened for this slot alone, which no longer names it.
            unsafe { libc::close(device) };
        }
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Releases the lock of a slot.
struct MediaLock<'w>(&'w Watched);

impl Drop for MediaLock<'_> {
    fn drop(&mut self) {
        self.0.lock.store(false, Ordering::Release);
    }
}

impl Watched {
    /// Returns true if there are losses that nobody has looked into. One load: called for every
    /// commit and every batch.
    #[inline]
    pub(crate) fn has_unresolved_losses(&self) -> bool {
        self.unresolved.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn resolutions(&self) -> u64 {
        // A thread that sees the count also sees what the thread that resolved the loss has stored.
        self.resolutions.load(Ordering::Acquire)
    }

    /// Returns true if bytes were lost, or losses resolved, since `resolutions` was read.
    #[inline]
    pub(crate) fn has_lost_since(&self, resolutions: u64) -> bool {
        // The caller's reads come before this; one of the two loads sees a loss that is resolved
        // meanwhile.
        fence(Ordering::Acquire);
        self.unresolved.load(Ordering::Acquire) != 0
            || self.resolutions.load(Ordering::Relaxed) != resolutions
    }

    /// Returns true if some page of the region is a private one.
    #[inline]
    pub(crate) fn has_quarantined(&self) -> bool {
        self.quarantined.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the offset of an address in this region.
    pub(crate) fn offset(&self, address: usize) -> Option<u64> {
        let base = self.base.load(Ordering::Acquire);
        if base == 0 {
            return None;
        }
        let offset = address.checked_sub(base)?;
        (offset < self.len.load(Ordering::Relaxed)).then_some(offset as u64)
    }

    fn lock(&self) -> MediaLock<'_> {
        while self.lock.swap(true, Ordering::Acquire) {
            // SAFETY: a system call without arguments.
            unsafe { libc::sched_yield() };
        }
        MediaLock(self)
    }

    fn address(&self, at: u64) -> *mut libc::c_void {
        (self.base.load(Ordering::Relaxed) + at as usize) as *mut libc::c_void
    }

    /// Replaces the page at `at` with a private one. Called by the signal handler: uses only system
    /// calls and atomics.
    pub(crate) fn quarantine(&self, at: u64) -> Quarantined {
        let page = at & !(PAGE - 1);
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        let is_private =
            |p: &Page| p.at.load(Ordering::Relaxed) == page && !p.repaired.load(Ordering::Relaxed);
        if self.pages[..known].iter().any(is_private) {
            // Another thread was here first.
            return Quarantined::Again;
        }
        let Some(private) = readable::blank_page() else { return Quarantined::Hopeless };
        let Some(entry) = self.pages.get(known) else { return self.blank(page, private) };
        // Other threads may store into the lines that are not lost.
        self.hold_stores(page);
        let (file, device) =
            (self.file.load(Ordering::Relaxed), self.device.load(Ordering::Relaxed));
        let lost = readable::copy_page(file, device, page, private);
        entry.set(LostPage { at: page, lines: lost }, false);
        self.total.fetch_add(1, Ordering::Relaxed);
        self.quarantined.fetch_add(1, Ordering::SeqCst);
        self.unresolved.fetch_add(1, Ordering::SeqCst);
        if readable::put_page(private, self.address(page)) {
            return Quarantined::Again;
        }
        Quarantined::Hopeless
    }

    /// Replaces a page that cannot be remembered with a page of zeros. Nothing more is written, and
    /// what is read has no effect, since the remembered pages stay unresolved until the store has
    /// stopped.
    ///
    /// In a private mapping, from which nothing is written, the readable bytes of the page are put
    /// there.
    fn blank(&self, page: u64, private: *mut u8) -> Quarantined {
        if self.is_private() {
            let (file, device) =
                (self.file.load(Ordering::Relaxed), self.device.load(Ordering::Relaxed));
            readable::copy_page(file, device, page, private);
            self.total.fetch_add(1, Ordering::Relaxed);
        } else if !self.ends_before(page) {
            return Quarantined::Hopeless;
        } else {
            self.cut_short.store(true, Ordering::Relaxed);
        }
        match readable::put_page(private, self.address(page)) {
            true => Quarantined::Again,
            false => Quarantined::Hopeless,
        }
    }

    /// Makes a page read only while its bytes are copied.
    fn hold_stores(&self, page: u64) {
        let number = self.copies.fetch_add(1, Ordering::Relaxed);
        self.recent[number % RECENT].store(page, Ordering::SeqCst);
        readable::protect(self.address(page));
    }

    /// Returns true if a store to `at` hit a page that was being copied: it can be retried. Waits
    /// until the page is in place.
    pub(crate) fn was_held(&self, at: u64) -> bool {
        let page = at & !(PAGE - 1);
        let _held = self.lock();
        self.recent.iter().any(|recent| recent.load(Ordering::Relaxed) == page)
    }

    /// Returns true if nothing is ever written to the file.
    pub(crate) fn is_private(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
    }

    /// Treats lines as lost that were lost before the region was opened; returns false if there is
    /// no space to remember them.
    pub(crate) fn mark_lost(&self, page: LostPage) -> bool {
        if std::ptr::eq(self, &UNWATCHED) {
            return false;
        }
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        let Some(entry) = self.pages.get(known) else { return false };
        entry.set(page, true);
        self.unresolved.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Returns the pages whose loss has not been recorded.
    pub(crate) fn unrecorded(&self) -> Vec<LostPage> {
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        let is_new = |page: &&Page| !page.recorded.load(Ordering::Relaxed);
        self.pages[..known].iter().filter(is_new).map(Page::get).collect()
    }

    /// Marks the loss of these pages as recorded: they may be repaired.
    pub(crate) fn set_recorded(&self, recorded: &[LostPage]) {
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        for page in self.pages[..known].iter().filter(|page| recorded.contains(&page.get())) {
            page.recorded.store(true, Ordering::Relaxed);
        }
    }

    /// Writes every private page whose loss was recorded to the file, and maps the file there
    /// again. Durable on return. Lower pages come first: if the record itself is in lost pages, it
    /// is written with them.
    pub(crate) fn repair(&self) -> io::Result<()> {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags == 0 || !self.has_quarantined() {
            return Ok(());
        }
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        let is_due = |page: &&Page| {
            page.recorded.load(Ordering::Relaxed) && !page.repaired.load(Ordering::Relaxed)
        };
        let mut due: Vec<&Page> = self.pages[..known].iter().filter(is_due).collect();
        due.sort_unstable_by_key(|page| page.at.load(Ordering::Relaxed));
        for entry in due {
            crate::panic_point();
            let page = entry.at.load(Ordering::Relaxed);
            let file = self.file.load(Ordering::Relaxed);
            let is_bad = entry.lost.load(Ordering::Relaxed) != 0;
            self.refuse_past_end(page)?;
            self.hold_stores(page);
            readable::write_back(file, page, self.address(page), flags, is_bad)?;
            entry.repaired.store(true, Ordering::Relaxed);
            self.quarantined.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Returns how many pages are unresolved, and the lines that were lost with them.
    pub(crate) fn lost(&self) -> (usize, Vec<Lost>) {
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        let mut all: Vec<Lost> = Vec::new();
        for entry in &self.pages[..known] {
            let page = entry.get();
            for line in (0..PAGE / LINE).filter(|line| page.lines & 1 << line != 0) {
                let at = page.at + line * LINE;
                match all.last_mut() {
                    Some(last) if last.at + last.len == at => last.len += LINE,
                    _ => all.push(Lost { at, len: LINE }),
                }
            }
        }
        (known, all)
    }

    /// Returns the pages that were lost after the first `pages` ones.
    pub(crate) fn lost_after(&self, pages: usize) -> Vec<LostPage> {
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        self.pages[pages.min(known)..known].iter().map(Page::get).collect()
    }

    /// Forgets the first `pages` pages, which were repaired and looked into. Returns true if no
    /// others have been found since.
    pub(crate) fn resolve(&self, pages: usize) -> bool {
        let _held = self.lock();
        let known = self.unresolved.load(Ordering::Relaxed);
        let gone = pages.min(known);
        for (to, from) in (gone..known).enumerate() {
            let (to, from) = (&self.pages[to], &self.pages[from]);
            to.set(from.get(), from.recorded.load(Ordering::Relaxed));
            to.repaired.store(from.repaired.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.resolutions.fetch_add(1, Ordering::SeqCst);
        self.unresolved.store(known - gone, Ordering::SeqCst);
        known == gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Calls, DomainRequest, MapOptions, Region, watch_calls};
    use rustix::io::Errno;
    use std::os::unix::fs::FileExt;
    use std::sync::{Arc, Mutex};

    /// Refuses writes, and records which calls were made.
    struct Refusing(Errno, Mutex<Vec<Call>>);

    impl Calls for Refusing {
        fn before(&self, call: Call) -> Result<(), Errno> {
            let mut calls = self.1.lock().expect("no panic");
            calls.push(call);
            // Only a bad block does not accept the page: another block does.
            let is_other = self.0 == Errno::IO && calls.contains(&Call::Punch);
            let refuses = call == Call::Write && !is_other;
            if refuses { Err(self.0) } else { Ok(()) }
        }

        fn stored(&self, _at: u64, _len: u64) {}

        fn synced(&self, _at: u64, _len: u64, _well: bool) {}
    }

    /// Quarantines a page of which this many bytes at the end are gone, and makes the file refuse
    /// it with `errno` at the next fence. Returns whether the fence succeeded, and how many bytes
    /// of the page the file still has.
    fn refused(errno: Errno, gone: u64) -> (bool, usize) {
        let dir = tempfile::tempdir().expect("a folder");
        let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(4 * PAGE) };
        let region = Region::open(dir.path().join("pool"), &options).expect("a region");
        region.grow(4 * PAGE).expect("free memory");
        // SAFETY: no slice of the region's bytes exists.
        unsafe { region.write(0, &[7; 4 * PAGE as usize]) };
        let file = region.file.as_ref().expect("a file");
        file.set_len(4 * PAGE - gone).expect("a shorter file");
        assert_eq!(region.watch.quarantine(3 * PAGE), Quarantined::Again);
        let calls = Arc::new(Refusing(errno, Mutex::default()));
        watch_calls(Some(calls.clone()));
        region.fence();
        watch_calls(None);
        let mut bytes = [0; PAGE as usize];
        let read = file.read_at(&mut bytes, 3 * PAGE).expect("the file");
        let kept = bytes[..read].iter().filter(|byte| **byte == 7).count();
        (!region.failed(), kept)
    }

    #[test]
    fn a_page_that_a_full_file_system_refuses_keeps_its_block() {
        let page = PAGE as usize;
        assert_eq!(refused(Errno::NOSPC, 0), (false, page), "nothing was lost");
        assert_eq!(refused(Errno::IO, 0), (false, page), "nothing was lost");
        assert_eq!(refused(Errno::NOSPC, 1024), (false, page - 1024), "the block is not bad");
        assert_eq!(refused(Errno::IO, 1024), (true, page - 1024), "the block is bad");
    }
}
