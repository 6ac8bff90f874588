//! The pool's own record of media errors: the losses that are not resolved, and why it takes no
//! writes.
//!
//! Repairing a damaged page overwrites it with zeros, and the medium no longer reports what was
//! lost there. So each loss is recorded here, flushed and fenced before its page is written, and
//! removed when its owner has recorded the loss durably. Opening a pool treats the losses recorded
//! here as lost again: a process may end between any two steps.
//!
//! There is a copy in each of the two header pages, so that the loss of one page takes no record
//! with it. Everything is self-checksummed: a torn entry was not fenced, and its page has not been
//! written.
//!
//! ```text
//! 512, 4608    stop       crc32c u32 of 4..256 | length u32, hides keys << 31 | text, 248 bytes
//! 768, 4864    208 entries of 16 bytes:
//!              1 << 63 | crc32c of page and lines (23 bits) << 40 | page (40 bits)
//!              lines of the page that were lost, a bit for each
//!              (the last page number: something was lost with its name)
//! ```

#![allow(unsafe_code, reason = "the records are stored in the pool")]

use crate::checksum::crc32c;
use crate::fault_points::FaultPoint;
use crate::layout::header::BYTES;
use crate::layout::{HEADER_A, HEADER_B, LINE};
use pmem::{Lost, LostPage, Region};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PAGE: u64 = 4096;
/// In a header's page, after its first sector.
const STOP_AT: u64 = 512;
const STOP_BYTES: usize = 256;
const TEXT_AT: usize = 8;
const ENTRIES_AT: u64 = STOP_AT + STOP_BYTES as u64;
/// The number of losses that can be recorded at once.
pub(crate) const ENTRIES: u64 = (PAGE - ENTRIES_AT) / 16;
/// Not a page: records that something was lost together with its name, so that an opening of the
/// pool must look for it.
pub(crate) const NAMES: LostPage = LostPage { at: ((1 << 40) - 1) * PAGE, lines: 1 };
const COPIES: [u64; 2] = [HEADER_A, HEADER_B];
const HIDES: u32 = 1 << 31;

const _: () = assert!(BYTES as u64 <= STOP_AT);
const _: () = assert!(HEADER_B - HEADER_A == PAGE && PAGE / LINE == 64);
const _: () = assert!(ENTRIES == 208 && ENTRIES_AT + 16 * ENTRIES == PAGE);

/// Only one thread at a time may look for a free entry, or remove one that another may be about to
/// rely on. A fence of any thread may get here.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a pool takes no writes, in this incarnation and in later ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// A description of the loss.
    pub why: String,
    /// Whether keys that are there may look as if they were not.
    pub hides_keys: bool,
}

/// Records losses durably; returns false if there is no space for them, or if it failed. Called by
/// [`Region::record_losses`].
pub(crate) fn record(region: &Region, pages: &[LostPage]) -> bool {
    if !FaultPoint::RecordLosses.is_enabled() {
        return true;
    }
    let _alone = alone();
    for &page in pages {
        let taken = entries(region);
        if taken.iter().any(|(_, known)| known.at == page.at && page.lines & !known.lines == 0) {
            continue;
        }
        let free = (0..ENTRIES).find(|slot| taken.iter().all(|(used, _)| used != slot));
        let Some(slot) = free else {
            let why = "the medium lost more than the pool can record".into();
            write_stop(region, &Stop { why, hides_keys: false });
            return false;
        };
        COPIES.iter().for_each(|copy| put(region, copy + slot_at(slot), page));
        pmem::panic_point();
    }
    region.drain();
    !region.failed()
}

/// Returns the recorded losses.
pub(crate) fn read(region: &Region) -> Vec<LostPage> {
    let pages = entries(region).into_iter().map(|(_, page)| page);
    pages.filter(|page| *page != NAMES).collect()
}

/// Returns true if something was lost together with its name.
pub(crate) fn has_lost_names(region: &Region) -> bool {
    entries(region).iter().any(|(_, page)| *page == NAMES)
}

/// Durably removes the record that something was lost together with its name.
pub(crate) fn forget_names(region: &Region) {
    forget(region, 0, &[Lost { at: NAMES.at, len: LINE }]);
}

/// Removes the losses among the region's first `pages` damaged pages that have been resolved.
/// Writes one copy after the other, so that a crash leaves each entry whole in one of them.
pub(crate) fn forget(region: &Region, pages: usize, resolved: &[Lost]) {
    let _alone = alone();
    // A line that has been lost again since then relies on the same entry.
    let later = region.lost_after(pages);
    let is_resolved = |line: u64| {
        resolved.iter().any(|lost| (lost.at..lost.at + lost.len).contains(&line))
            && later.iter().all(|page| line & !(PAGE - 1) != page.at)
    };
    let unresolved = |page: &LostPage| {
        let is_left = |n: &u64| page.lines & 1 << n != 0 && !is_resolved(page.at + n * LINE);
        (0..64).filter(is_left).fold(0, |lines, n| lines | 1 << n)
    };
    let entries = entries(region);
    for copy in COPIES {
        for &(slot, page) in &entries {
            let lines = unresolved(&page);
            if lines != page.lines {
                put(region, copy + slot_at(slot), LostPage { lines, ..page });
            }
        }
        region.drain();
        pmem::panic_point();
    }
}

/// Restores both copies after one of them was lost.
pub(crate) fn restore(region: &Region) {
    let _alone = alone();
    for (slot, page) in entries(region) {
        COPIES.iter().for_each(|copy| put(region, copy + slot_at(slot), page));
    }
    region.drain();
    if let Some(stop) = stopped(region) {
        write_stop(region, &stop);
    }
}

/// Durably records that the pool takes no writes.
pub(crate) fn stop(region: &Region, stop: &Stop) {
    let _alone = alone();
    if FaultPoint::RecordStop.is_enabled() {
        write_stop(region, stop);
    }
}

/// Allows writes to the pool again, and removes all losses.
pub(crate) fn clear(region: &Region) {
    let _alone = alone();
    for copy in COPIES {
        for slot in 0..ENTRIES {
            put(region, copy + slot_at(slot), LostPage { at: 0, lines: 0 });
        }
        region.drain();
    }
    put_stop(region, &[0; STOP_BYTES]);
}

/// Returns why the pool takes no writes, if it was stopped.
pub(crate) fn stopped(region: &Region) -> Option<Stop> {
    COPIES.iter().find_map(|copy| {
        let mut bytes = [0; STOP_BYTES];
        for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&region.load(copy + STOP_AT + 8 * i as u64).to_le_bytes());
        }
        let half = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let (crc, said) = (half(0), half(4));
        let text = bytes[TEXT_AT..].get(..(said & !HIDES) as usize)?;
        let is_whole = said != 0 && crc == crc32c(&bytes[4..]);
        let why = String::from_utf8_lossy(text).into_owned();
        is_whole.then_some(Stop { why, hides_keys: said & HIDES != 0 })
    })
}

fn write_stop(region: &Region, stop: &Stop) {
    let mut bytes = [0; STOP_BYTES];
    let mut len = stop.why.len().min(STOP_BYTES - TEXT_AT);
    while !stop.why.is_char_boundary(len) {
        len -= 1;
    }
    let said = len as u32 | if stop.hides_keys { HIDES } else { 0 };
    bytes[4..8].copy_from_slice(&said.to_le_bytes());
    bytes[TEXT_AT..TEXT_AT + len].copy_from_slice(&stop.why.as_bytes()[..len]);
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    put_stop(region, &bytes);
}

fn put_stop(region: &Region, bytes: &[u8; STOP_BYTES]) {
    for copy in COPIES {
        // SAFETY: only this module writes these bytes, under its lock; they are read as words.
        unsafe { region.write(copy + STOP_AT, bytes) };
        region.flush(copy + STOP_AT, STOP_BYTES);
        region.drain();
        pmem::panic_point();
    }
}

fn slot_at(slot: u64) -> u64 {
    ENTRIES_AT + 16 * slot
}

/// Stores an entry; zeros if the page has no lost line left.
fn put(region: &Region, at: u64, page: LostPage) {
    let word = if page.lines == 0 { 0 } else { word(page) };
    // SAFETY: only this module writes here, under its lock; no slice of the bytes exists.
    unsafe { region.store(at + 8, page.lines) };
    // SAFETY: as above.
    unsafe { region.store(at, word) };
    region.flush(at, 16);
}

/// Returns the entries that are valid in either copy, with their slots.
fn entries(region: &Region) -> Vec<(u64, LostPage)> {
    let of_copy = |copy: u64| {
        (0..ENTRIES).filter_map(move |slot| {
            let at = copy + slot_at(slot);
            let (first, lines) = (region.load(at), region.load(at + 8));
            let page = LostPage { at: (first & ((1 << 40) - 1)) * PAGE, lines };
            (lines != 0 && first == word(page)).then_some((slot, page))
        })
    };
    let mut all: Vec<(u64, LostPage)> = of_copy(HEADER_A).collect();
    for (slot, page) in of_copy(HEADER_B) {
        if !all.contains(&(slot, page)) {
            all.push((slot, page));
        }
    }
    all
}

fn word(page: LostPage) -> u64 {
    let number = page.at / PAGE;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&page.lines.to_le_bytes());
    1 << 63 | u64::from(crc32c(&bytes) >> 9) << 40 | number
}
