//! A region after the medium has lost bytes: here, a file that is truncated under its mapping.
//!
//! A page that the file no longer has raises the same signal as a poisoned line of persistent
//! memory.

#![allow(unsafe_code, reason = "the tests store into regions")]

use pmem::{DomainRequest, Lost, MapError, MapOptions, Region};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: u64 = 4096;

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    region: Region,
}

impl Pool {
    /// Creates a pool of this many pages, in which each word holds its own offset.
    fn new(pages: u64) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let mut options = MapOptions::new(pages * PAGE);
        options.domain = DomainRequest::Process;
        let region = Region::open(&path, &options).expect("a region");
        region.grow(pages * PAGE).expect("free memory");
        for at in (0..pages * PAGE).step_by(8) {
            // SAFETY: no slice of the region's bytes exists.
            unsafe { region.store(at, at) };
        }
        Pool { _folder: folder, path, region }
    }

    fn file(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.path).expect("the file")
    }

    fn cut(&self, pages: u64) {
        self.file().set_len(pages * PAGE).expect("a shorter file");
    }
}

fn word(path: &Path, at: u64) -> u64 {
    let mut bytes = [0; 8];
    File::open(path).expect("the file").read_exact_at(&mut bytes, at).expect("a word");
    u64::from_le_bytes(bytes)
}

#[test]
fn bytes_that_are_gone_read_as_zeros_and_are_named() {
    let pool = Pool::new(8);
    pool.cut(5);
    assert!(!pool.region.has_unresolved_losses());
    assert_eq!(pool.region.load(6 * PAGE + 8), 0);
    assert!(pool.region.has_unresolved_losses());
    assert_eq!(pool.region.media_errors(), 1);
    assert_eq!(pool.region.lost(), (1, vec![Lost { at: 6 * PAGE, len: PAGE }]));
    for at in (0..5 * PAGE).step_by(8) {
        assert_eq!(pool.region.load(at), at, "a neighbour");
    }
    assert_eq!(pool.region.media_errors(), 1);
}

#[test]
fn a_page_is_written_again_before_a_fence_completes() {
    let pool = Pool::new(8);
    pool.cut(5);
    let at = 6 * PAGE + 64;
    // SAFETY: no slice of the region's bytes exists.
    unsafe { pool.region.store(at, 77) };
    assert_eq!(pool.file().metadata().expect("a file").len(), 5 * PAGE, "not there yet");
    pool.cut(8);
    pool.region.flush(at, 8);
    pool.region.fence();
    assert_eq!(word(&pool.path, at), 77, "what was fenced is in the file");
    // SAFETY: as above.
    unsafe { pool.region.store(at + 8, 78) };
    assert_eq!(word(&pool.path, at + 8), 78, "the file is mapped there again");
    assert!(pool.region.has_unresolved_losses(), "what was lost is still to be looked into");
    let (pages, lost) = pool.region.lost();
    assert_eq!((pages, lost.len()), (1, 1));
    assert!(pool.region.resolve(pages));
    assert!(!pool.region.has_unresolved_losses());
    assert!(!pool.region.failed());
}

/// A page past the file's end is not a loss of the medium: writing it would extend the file again,
/// with zeros in between.
#[test]
fn a_file_that_was_cut_short_is_not_made_long_again() {
    let pool = Pool::new(300);
    assert_eq!(pool.region.cut_short(), None);
    pool.cut(5);
    assert_eq!(pool.region.cut_short(), Some(5 * PAGE));
    // More pages than can be remembered.
    for page in 6..300 {
        assert_eq!(pool.region.load(page * PAGE), 0);
    }
    pool.region.fence();
    assert!(pool.region.failed());
    let error = pool.region.grow(301 * PAGE).expect_err("a gap");
    assert!(error.to_string().contains("cannot grow to"), "{error}");
    assert_eq!(pool.file().metadata().expect("a file").len(), 5 * PAGE);
    pool.cut(300);
    assert_eq!(pool.region.cut_short(), Some(300 * PAGE), "it is known that something is gone");
}

#[test]
fn what_comes_while_another_is_looked_into_is_kept() {
    let pool = Pool::new(8);
    pool.cut(4);
    pool.region.load(5 * PAGE);
    let (pages, _) = pool.region.lost();
    pool.region.load(7 * PAGE);
    pool.cut(8);
    pool.region.repair();
    assert!(!pool.region.resolve(pages), "another one has come");
    assert_eq!(pool.region.lost(), (1, vec![Lost { at: 7 * PAGE, len: PAGE }]));
}

#[test]
fn an_inspected_file_is_never_written_to() {
    let pool = Pool::new(8);
    let path = pool.path.clone();
    let Pool { region, _folder, .. } = pool;
    let locked = Region::inspect(&path).map(drop);
    assert!(matches!(locked, Err(MapError::Locked { .. })), "{locked:?}");
    drop(region);
    let seen = Region::inspect(&path).expect("nobody else has it");
    let also = Region::inspect(&path).expect("inspections share");
    // SAFETY: no slice of the region's bytes exists.
    unsafe { seen.store(PAGE, 5) };
    seen.flush(PAGE, 8);
    seen.fence();
    assert_eq!((seen.load(PAGE), also.load(PAGE), word(&path, PAGE)), (5, PAGE, PAGE));
    assert!(seen.grow(9 * PAGE).is_err());
    let file = OpenOptions::new().write(true).open(&path).expect("the file");
    file.set_len(6 * PAGE).expect("a shorter file");
    assert_eq!(seen.load(7 * PAGE), 0);
    seen.repair();
    assert_eq!(file.metadata().expect("a file").len(), 6 * PAGE);
    assert_eq!(seen.lost().1, [Lost { at: 7 * PAGE, len: PAGE }]);
}

/// More than can be remembered: nothing is written from a private mapping, so every loss may be
/// read around.
#[test]
fn an_inspected_file_may_lose_any_number_of_pages() {
    const PAGES: u64 = 600;
    let Pool { region, _folder, path } = Pool::new(PAGES);
    drop(region);
    let seen = Region::inspect(&path).expect("nobody else has it");
    let file = OpenOptions::new().write(true).open(&path).expect("the file");
    file.set_len(2 * PAGE).expect("a shorter file");
    let words: Vec<u64> = (0..PAGES).map(|page| seen.load(page * PAGE + 8)).collect();
    assert_eq!(words[..2], [8, PAGE + 8]);
    assert!(words[2..].iter().all(|word| *word == 0));
    assert_eq!(seen.media_errors(), PAGES - 2);
}

/// Writers store and fence in pages that are repeatedly cut off under them. Whatever a fence has
/// covered is in the file, or was lost with its page before; no store is lost between a private
/// page and the file.
#[test]
fn no_store_is_lost_between_a_private_page_and_the_file() {
    let pool = Arc::new(Pool::new(4));
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4u64)
        .map(|writer| {
            let (pool, over) = (Arc::clone(&pool), Arc::clone(&over));
            std::thread::spawn(move || {
                let at = 2 * PAGE + writer * 64;
                let mut rounds = 0u64;
                while !over.load(Ordering::Relaxed) {
                    rounds += 1;
                    // SAFETY: no slice of the region's bytes exists.
                    unsafe { pool.region.store(at, rounds) };
                    pool.region.flush(at, 8);
                    pool.region.fence();
                    let seen = pool.region.load(at);
                    // The page may have been cut off since, and then reads as zeros.
                    assert!(seen == rounds || seen == 0, "writer {writer}: {seen} of {rounds}");
                }
                rounds
            })
        })
        .collect();
    for round in 0..300 {
        pool.cut(2);
        std::thread::sleep(std::time::Duration::from_micros(round));
        pool.cut(4);
        let (pages, _) = pool.region.lost();
        pool.region.repair();
        pool.region.resolve(pages);
    }
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.join().expect("no writer fails") > 0);
    }
    pool.region.repair();
    assert!(pool.region.media_errors() > 10, "{} pages", pool.region.media_errors());
}
