//! The domain `journal` on real files: what is recovered after the process has ended, and what is
//! refused.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use crc_fast::{CrcAlgorithm, checksum};
use pmem::{
    DomainRequest, FilePlace, JournalError, JournalId, Kept, MapOptions, Region, SyncPolicy,
    counters,
};
use std::fs;
use std::path::PathBuf;

const LEN: u64 = 1 << 20;
const RING: u64 = 64 << 10;
/// Where the pool records its journal's progress.
const PROGRESS_AT: u64 = LEN / 2;
const ID: JournalId = JournalId { pool: [7; 16], journal: 1 };

struct Files {
    _folder: tempfile::TempDir,
    pool: PathBuf,
    journal: PathBuf,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        let journal = folder.path().join("pool.journal");
        Files { _folder: folder, pool, journal }
    }

    fn open(&self) -> Region {
        let domain = DomainRequest::Journal;
        let options = MapOptions { domain, journal_size: RING, ..MapOptions::new(4 * LEN) };
        Region::open(&self.pool, &options).unwrap()
    }

    /// Returns a region of a megabyte with an empty journal in use.
    fn begun(&self) -> Region {
        let region = self.open();
        region.grow(LEN).unwrap();
        region.begin_journal(ID, PROGRESS_AT).unwrap();
        region.start_journal();
        region
    }

    fn recovered(&self) -> Result<Region, JournalError> {
        let region = self.open();
        region.recover_journal(ID, PROGRESS_AT)?;
        Ok(region)
    }

    /// Returns true if nothing has been applied to the pool's file.
    fn is_unchanged(&self) -> bool {
        let mut file = fs::read(&self.pool).unwrap();
        file[PROGRESS_AT as usize..][..64].fill(0);
        file.iter().all(|byte| *byte == 0)
    }

    /// Changes bytes of the journal's file.
    fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.journal).unwrap();
        change(&mut bytes);
        fs::write(&self.journal, bytes).unwrap();
    }

    /// Turns a journal in which each batch begins a block and has the first word of a line, and its
    /// pool, into those that a program of an older format would have left.
    fn make_older(&self, batches: usize) {
        let crc = |bytes: &[u8]| checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32;
        self.damage(|bytes| {
            for superblock in bytes[..8192].chunks_mut(4096) {
                superblock[8] = 1;
                superblock[104..120].fill(0);
                let crc = crc(&superblock[16..128]);
                superblock[12..16].copy_from_slice(&crc.to_le_bytes());
            }
            for batch in bytes[8192..].chunks_mut(4096).take(batches) {
                batch[40..56].fill(0);
                let word = u64::from_le_bytes(batch[64..72].try_into().unwrap()) >> 16;
                let len = 64 + 8 + 64;
                batch[64..72].copy_from_slice(&((word / 8) << 16 | 1).to_le_bytes());
                batch[12..16].copy_from_slice(&(len as u32).to_le_bytes());
                let crc = crc(&[&ID.pool, &batch[12..len]].concat());
                batch[8..12].copy_from_slice(&crc.to_le_bytes());
            }
        });
        let mut pool = fs::read(&self.pool).unwrap();
        pool[PROGRESS_AT as usize..][..64].fill(0);
        fs::write(&self.pool, pool).unwrap();
    }

    fn check_refused(&self, expect: &str) {
        let error = self.recovered().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

/// Stores a word, flushes it and fences.
fn put(region: &Region, off: u64, value: u64) -> u64 {
    // SAFETY: no slice of the region is held by these tests while they store.
    unsafe { region.store(off, value) };
    region.flush(off, 8);
    region.fence();
    region.appended()
}

#[test]
fn what_was_written_to_the_journal_comes_back_and_what_was_not_flushed_does_not() {
    let files = Files::new();
    let region = files.begun();
    put(&region, 64, 1);
    put(&region, 64, 2);
    // SAFETY: as in `put`.
    unsafe { region.store(4096, 3) };
    let end = put(&region, LEN - 8, 4);
    region.acknowledge(end, SyncPolicy::No).unwrap();
    put(&region, 128, 5);
    drop(region);
    assert!(files.is_unchanged());

    let region = files.recovered().unwrap();
    let found = [64, 4096, LEN - 8, 128].map(|off| region.load(off));
    assert_eq!(found, [2, 0, 4, 0]);
}

#[test]
fn one_write_and_one_sync_serve_all_fences_before_them() {
    let files = Files::new();
    let region = files.begun();
    let before = region.journal_counts().unwrap();
    let positions: Vec<u64> = (0..10).map(|n| put(&region, n * 64, n)).collect();
    assert!(positions.is_sorted() && region.synced() == 0);
    region.sync_up_to(positions[9]).unwrap();
    assert_eq!(region.synced(), positions[9]);
    region.sync_up_to(positions[3]).unwrap();
    let counts = region.journal_counts().unwrap();
    assert_eq!((counts.batches - before.batches, counts.syncs - before.syncs), (1, 1));
    assert_eq!(counts.used, 256);
}

#[test]
fn writes_that_nobody_syncs_share_blocks_and_those_after_a_sync_do_not() {
    let files = Files::new();
    let region = files.begun();
    let written = || region.journal_counts().unwrap().bytes_written;
    let write = |n: u64| {
        let end = put(&region, 64 * n, n);
        region.write_up_to(end).unwrap();
        written()
    };
    assert_eq!(write(1), 4096);
    // A header, a range, a word, and zeros up to the next line.
    assert_eq!(write(2), 4096 + 128);
    assert_eq!(write(3), 4096 + 2 * 128);
    region.sync_up_to(region.appended()).unwrap();
    assert_eq!(write(4), 2 * 4096 + 2 * 128);
    region.sync_in_background().unwrap();
    assert_eq!(write(5), 3 * 4096 + 2 * 128);
    for n in 6..40 {
        write(n);
    }
    drop(region);
    for checkpoints in 0..3 {
        let region = files.recovered().unwrap();
        assert!((1..40).all(|n| region.load(64 * n) == n), "{checkpoints}");
        region.checkpoint_step().unwrap();
        let end = put(&region, 64 * 40, checkpoints);
        region.write_up_to(end).unwrap();
        let end = put(&region, 64 * 41, checkpoints);
        region.write_up_to(end).unwrap();
        drop(region);
        let region = files.recovered().unwrap();
        assert_eq!((region.load(64 * 40), region.load(64 * 41)), (checkpoints, checkpoints));
    }
}

#[test]
fn streamed_bytes_are_recorded_and_counted_as_in_other_domains() {
    let files = Files::new();
    let region = files.begun();
    let before = counters();
    // SAFETY: nobody reads the range.
    unsafe { region.write_streaming(40, &[9; 2000]) };
    region.fence();
    let counted = counters().since(&before);
    assert_eq!((counted.fences, counted.lines, counted.streamed), (1, 2, 1920));
    // SAFETY: as above.
    let must_be_flushed = unsafe { region.write_lines(8192, &[8; 128]) };
    assert!(must_be_flushed);
    region.flush(8192, 128);
    region.fence();
    region.sync_up_to(region.appended()).unwrap();
    drop(region);
    let region = files.recovered().unwrap();
    // SAFETY: nobody writes to the region any more.
    let streamed = unsafe { region.bytes(40, 2000) };
    // SAFETY: as above.
    let lines = unsafe { region.bytes(8192, 128) };
    assert!(streamed.iter().all(|byte| *byte == 9) && lines.iter().all(|byte| *byte == 8));
}

#[test]
fn a_fence_of_more_than_the_ring_waits_for_the_pool_and_loses_nothing() {
    let files = Files::new();
    let region = files.begun();
    let bytes: Vec<u8> = (0..8 * RING).map(|n| (n / 64) as u8 | 1).collect();
    // SAFETY: nobody reads the range.
    unsafe { region.write_streaming(64, &bytes) };
    region.fence();
    let end = put(&region, LEN - 64, 6);
    region.sync_up_to(end).unwrap();
    let counts = region.journal_counts().unwrap();
    assert!(counts.full_waits > 0 && counts.used <= RING, "{counts:?}");
    drop(region);
    let region = files.recovered().unwrap();
    // SAFETY: nobody writes to the region any more.
    assert!(unsafe { region.bytes(64, bytes.len()) } == bytes);
    assert_eq!(region.load(LEN - 64), 6);
}

#[test]
fn a_checkpoint_leaves_everything_in_the_file_and_an_empty_journal() {
    let files = Files::new();
    let region = files.begun();
    put(&region, 64, 1);
    region.grow(2 * LEN).unwrap();
    put(&region, 2 * LEN - 8, 2);
    region.end_journal().unwrap();
    put(&region, 192, 3);
    drop(region);
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(LEN) };
    let file = Region::open(&files.pool, &options).unwrap();
    assert_eq!([64, 2 * LEN - 8, 192].map(|off| file.load(off)), [1, 2, 3]);
    drop(file);
    let region = files.open();
    let next = JournalId { journal: 2, ..ID };
    region.begin_journal(next, PROGRESS_AT).unwrap();
    region.start_journal();
    put(&region, 64, 4);
    region.checkpoint().unwrap();
    drop(region);
    let region = files.open();
    assert_eq!(region.recover_journal(next, PROGRESS_AT).unwrap().batches, 0);
    assert_eq!(region.load(64), 4);
}

#[test]
fn incarnations_follow_each_other_in_one_journal() {
    let files = Files::new();
    drop(files.begun());
    for n in 1..100 {
        let region = files.recovered().unwrap();
        assert_eq!(region.load(64 * n), 0);
        assert!((1..n).all(|n| region.load(64 * n) == n));
        let end = put(&region, 64 * n, n);
        region.sync_up_to(end).unwrap();
        if n % 7 == 0 {
            region.checkpoint_step().unwrap();
        }
    }
}

#[test]
fn each_refusal_says_what_is_wrong() {
    let files = Files::new();
    let region = files.begun();
    for n in 1..4 {
        let end = put(&region, 64 * n, n);
        region.sync_up_to(end).unwrap();
    }
    drop(region);
    let whole = fs::read(&files.journal).unwrap();
    let check = |change: &dyn Fn(&mut Vec<u8>), expect: &str| {
        files.damage(change);
        files.check_refused(expect);
        fs::write(&files.journal, &whole).unwrap();
    };
    check(&|bytes| bytes.truncate(20_000), "cut short: expected 73728 bytes, found 20000");
    check(&|bytes| bytes.truncate(100), "cut short");
    check(&|bytes| bytes[..8192].fill(0), "superblock are damaged");
    check(&|bytes| bytes.iter_mut().step_by(100).for_each(|byte| *byte ^= 1), "no journal");
    check(&|bytes| (bytes[30] ^= 1, bytes[4096 + 30] ^= 1).0, "superblock are damaged");
    check(&|bytes| (bytes[8] += 1, bytes[4096 + 8] += 1).0, "has format 6");
    check(&|bytes| bytes[8192 + 75] ^= 1, "batch 1 is not whole, though it was synced");
    // The last batch: nothing shows that it had been synced.
    files.damage(|bytes| bytes[8192 + 2 * 4096 + 75] ^= 1);
    assert_eq!(files.recovered().unwrap().load(64 * 3), 0);
    fs::write(&files.journal, &whole).unwrap();

    let error = |id| files.open().recover_journal(id, PROGRESS_AT).unwrap_err().to_string();
    assert!(error(JournalId { pool: [8; 16], ..ID }).contains("another pool: expected one of"));
    assert!(error(JournalId { journal: 2, ..ID }).contains("expected journal 2 of it, found 1"));
    // A journal that holds writes is never overwritten.
    let begin = |id| files.open().begin_journal(id, PROGRESS_AT).unwrap_err().to_string();
    assert!(
        begin(JournalId { journal: 2, ..ID }).contains("holds writes that are not in the pool")
    );
    assert!(begin(JournalId { pool: [8; 16], ..ID }).contains("another pool"));
    fs::remove_file(&files.journal).unwrap();
    files.check_refused("missing");
    assert!(!files.journal.exists());
}

#[test]
fn a_journal_whose_batches_all_begin_a_block_is_read() {
    let files = Files::new();
    let region = files.begun();
    for n in 1..4 {
        let end = put(&region, 64 * n, n);
        region.sync_up_to(end).unwrap();
    }
    drop(region);
    files.make_older(3);
    for n in 4..7 {
        let region = files.recovered().unwrap();
        assert!((1..n).all(|n| region.load(64 * n) == n));
        let end = put(&region, 64 * n, n);
        region.sync_up_to(end).unwrap();
        drop(region);
        let journal = fs::read(&files.journal).unwrap();
        assert_eq!([journal[8], journal[4096 + 8]], [5, 5]);
    }
}

#[test]
fn a_pool_and_a_journal_of_different_ages_are_refused() {
    let files = Files::new();
    let copy = || (fs::read(&files.pool).unwrap(), fs::read(&files.journal).unwrap());
    let put_back = |pool: &[u8], journal: &[u8]| {
        fs::write(&files.pool, pool).unwrap();
        fs::write(&files.journal, journal).unwrap();
    };
    let region = files.begun();
    put(&region, 64, 1);
    region.checkpoint().unwrap();
    let end = put(&region, 128, 2);
    region.sync_up_to(end).unwrap();
    let old = copy();
    put(&region, 192, 3);
    region.checkpoint().unwrap();
    let end = put(&region, 256, 4);
    region.sync_up_to(end).unwrap();
    drop(region);
    let new = copy();

    put_back(&old.0, &new.1);
    files.check_refused("the pool's file is older than its journal");
    assert!(copy() == (old.0.clone(), new.1.clone()), "nothing is changed");
    put_back(&new.0, &old.1);
    files.check_refused("the journal is older than the pool's file");
    assert!(copy() == (new.0.clone(), old.1.clone()), "nothing is changed");
    let mut damaged = new.0.clone();
    damaged[PROGRESS_AT as usize + 16] ^= 1;
    put_back(&damaged, &new.1);
    files.check_refused("says how far its journal came is damaged");
    for (pool, journal, found) in [(&old.0, &old.1, [1, 2, 0, 0]), (&new.0, &new.1, [1, 2, 3, 4])] {
        put_back(pool, journal);
        let region = files.recovered().unwrap();
        assert_eq!([64, 128, 192, 256].map(|off| region.load(off)), found);
    }
}

/// Once a pool has been opened with a journal that has some batches, a journal that lacks them is
/// too old.
#[test]
fn a_journal_that_lacks_what_an_opening_found_is_refused() {
    let files = Files::new();
    let region = files.begun();
    let end = put(&region, 64, 1);
    region.sync_up_to(end).unwrap();
    let old = fs::read(&files.journal).unwrap();
    let end = put(&region, 64, 2);
    region.sync_up_to(end).unwrap();
    drop(region);
    drop(files.recovered().unwrap());
    fs::write(&files.journal, old).unwrap();
    files.check_refused("the journal is older than the pool's file: it ends before batch 2");
}

#[test]
fn a_journal_whose_superblocks_were_zeroed_is_not_taken_for_a_new_one() {
    let files = Files::new();
    let region = files.begun();
    let end = put(&region, 64, 1);
    region.sync_up_to(end).unwrap();
    region.end_journal().unwrap();
    drop(region);
    files.damage(|bytes| bytes[..8192].fill(0));
    let before = fs::read(&files.journal).unwrap();
    let next = JournalId { journal: 2, ..ID };
    let error = files.open().begin_journal(next, PROGRESS_AT).unwrap_err().to_string();
    assert!(error.contains("both copies of the journal's superblock are damaged"), "{error}");
    assert!(fs::read(&files.journal).unwrap() == before);
    // A journal that was never begun, of which a power loss may have left the beginning.
    for len in [RING as usize + 8192, 7168, 1, 0] {
        files.damage(|bytes| *bytes = vec![0; len]);
        files.open().begin_journal(next, PROGRESS_AT).unwrap();
    }
}

#[test]
fn one_damaged_superblock_costs_nothing() {
    for copy in [0, 4096] {
        let files = Files::new();
        let region = files.begun();
        put(&region, 64, 1);
        region.checkpoint().unwrap();
        let end = put(&region, 64, 2);
        region.sync_up_to(end).unwrap();
        drop(region);
        files.damage(|bytes| bytes[copy + 50] ^= 1);
        assert_eq!(files.recovered().unwrap().load(64), 2);
    }
}

#[test]
fn a_journal_in_use_is_locked() {
    let files = Files::new();
    let region = files.begun();
    let other = files.pool.with_extension("other");
    let options = MapOptions {
        domain: DomainRequest::Journal,
        journal: Some(files.journal.clone()),
        ..MapOptions::new(LEN)
    };
    let second = Region::open(&other, &options).unwrap();
    let error = second.begin_journal(ID, PROGRESS_AT).unwrap_err().to_string();
    assert!(error.contains("another process has locked it"), "{error}");
    drop(region);
}

#[test]
fn a_journal_that_is_held_keeps_what_it_has() {
    let files = Files::new();
    let region = files.begun();
    put(&region, 64, 1);
    region.hold_journal(true);
    let end = put(&region, 128, 2);
    region.sync_up_to(end).unwrap();
    let used = region.journal_counts().unwrap().used;
    assert!(!region.checkpoint_step().unwrap());
    for refused in [region.checkpoint(), region.end_journal()] {
        assert!(matches!(refused, Err(JournalError::Held)), "{refused:?}");
    }
    assert_eq!(region.journal_counts().unwrap().used, used);
    assert!(files.is_unchanged());
    drop(region);
    let region = files.recovered().unwrap();
    assert_eq!([64, 128].map(|off| region.load(off)), [1, 2]);
    // A fence without space fails, and nothing waits.
    region.hold_journal(true);
    while !region.failed() {
        put(&region, 64, 3);
        let acknowledged = region.acknowledge(region.appended(), SyncPolicy::Always);
        assert!(acknowledged.is_ok() || region.failed());
    }
    assert!(region.journal_failure().is_some_and(|why| why.contains("not in its place")));
    assert_eq!(region.kept_by_journal(), Some(Kept::All));
    drop(region);
    // Otherwise it continues where it was.
    let region = files.recovered().unwrap();
    region.hold_journal(true);
    region.hold_journal(false);
    region.checkpoint().unwrap();
    assert_eq!(region.journal_counts().unwrap().used, 0);
}

#[test]
fn the_file_of_a_journal_is_looked_at_as_that_of_a_pool() {
    let files = Files::new();
    let region = files.begun();
    let check = |place: FilePlace, cut: Option<u64>| {
        let found = region.journal_file().expect("one in use");
        let cut_short = found.cut_short.map(|cut| cut.found);
        assert_eq!((found.path, found.place, cut_short), (files.journal.clone(), place, cut));
    };
    check(FilePlace::There, None);
    let elsewhere = files.pool.with_extension("elsewhere");
    fs::rename(&files.journal, &elsewhere).unwrap();
    check(FilePlace::Moved, None);
    fs::write(&files.journal, "another").unwrap();
    check(FilePlace::Moved, None);
    fs::rename(&elsewhere, &files.journal).unwrap();
    check(FilePlace::There, None);
    fs::File::options().write(true).open(&files.journal).unwrap().set_len(9000).unwrap();
    check(FilePlace::There, Some(9000));
    fs::remove_file(&files.journal).unwrap();
    check(FilePlace::Removed, Some(9000));
    region.end_journal().unwrap();
    assert_eq!(region.journal_file(), None);
}
