//! A region grows by zeros that the medium really provides, or stays as it is.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use pmem::{DomainRequest, GrowError, MapOptions, Region};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const STEP: u64 = 3 << 20;

fn open(path: &Path, domain: DomainRequest, reserve: u64) -> Region {
    Region::open(path, &MapOptions { domain, emulate: true, ..MapOptions::new(reserve) }).unwrap()
}

fn check_grows(dir: &Path, domain: DomainRequest) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let path = dir.path().join("pool");
    let region = open(&path, domain, 8 * STEP);
    for n in 1..=4 {
        region.grow(n * STEP).unwrap();
        assert_eq!(region.len(), n * STEP);
        let file = std::fs::metadata(&path).unwrap();
        assert_eq!(file.len(), n * STEP);
        assert!(file.blocks() * 512 >= n * STEP, "{domain:?}: room is allocated, not promised");
        // SAFETY: nobody else uses the region, and the slice is gone before the store.
        assert!(unsafe { region.bytes((n - 1) * STEP, STEP as usize) }.iter().all(|b| *b == 0));
        // SAFETY: as above.
        unsafe { region.store(n * STEP - 8, n) };
    }
    region.grow(STEP).unwrap();
    assert_eq!(region.len(), 4 * STEP, "a region does not shrink");
    for n in 1..=4 {
        assert_eq!(region.load(n * STEP - 8), n, "what was stored stays");
    }
}

#[test]
fn in_each_domain() {
    for dir in [&std::env::temp_dir(), Path::new("/dev/shm")] {
        check_grows(dir, DomainRequest::Clwb);
        check_grows(dir, DomainRequest::Msync);
        check_grows(dir, DomainRequest::Process);
    }
}

/// The kernel may find no huge page at one moment and find one at the next; but not this many times
/// in a row.
#[test]
fn in_memory_by_huge_pages_where_the_kernel_has_them() {
    let joined = (0..5).any(|_| {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("pool");
        let region = open(&path, DomainRequest::Process, 8 * STEP);
        region.grow(4 * STEP).unwrap();
        // SAFETY: nobody else uses the region.
        let all = unsafe { region.bytes(0, 4 * STEP as usize) };
        let joined = kib_in_huge_pages(&path) << 10 == all.len();
        let (at, len) = (all.as_ptr() as *mut _, all.len());
        // SAFETY: no contents change.
        let refused = unsafe { libc::madvise(at, len, libc::MADV_COLLAPSE) } != 0;
        joined || refused
    });
    assert!(joined, "pages stay small, though the kernel would join them");
}

/// Returns how much of a mapped tmpfs file uses huge pages.
fn kib_in_huge_pages(path: &Path) -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let of_file = smaps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let pages = of_file.take_while(|line| !line.starts_with("VmFlags"));
    let number = |line: &str| -> Option<usize> {
        line.strip_prefix("ShmemPmdMapped:")?.trim().split(' ').next()?.parse().ok()
    };
    pages.filter_map(number).sum()
}

#[test]
fn not_beyond_the_reserved_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let region = open(&dir.path().join("pool"), DomainRequest::Process, STEP);
    let reserved = region.reserved();
    region.grow(reserved).unwrap();
    let error = region.grow(reserved + 4096).unwrap_err();
    assert!(matches!(error, GrowError::BeyondReserve { .. }), "{error}");
    assert_eq!(region.len(), reserved);
}

#[test]
fn a_file_longer_than_the_reserve_is_mapped_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    open(&path, DomainRequest::Process, 8 * STEP).grow(8 * STEP).unwrap();
    let region = open(&path, DomainRequest::Process, STEP);
    assert_eq!(region.len(), 8 * STEP);
    assert_eq!(region.load(8 * STEP - 8), 0);
    assert_eq!(region.faults(), 0);
}

#[test]
fn a_full_file_system_is_an_error_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    // More than any test machine has. Some file systems report that the file is too large instead.
    let region = open(&path, DomainRequest::Process, 1 << 45);
    region.grow(STEP).unwrap();
    let error = region.grow(1 << 45).unwrap_err();
    assert!(matches!(error, GrowError::NoSpace { .. } | GrowError::Io { .. }), "{error}");
    assert_eq!(region.len(), STEP);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), STEP);
    region.grow(2 * STEP).unwrap();
}
