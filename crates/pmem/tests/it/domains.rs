//! Each persistence domain on the media of a test machine, and where it is refused.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use pmem::{Domain, DomainRequest, MapError, MapOptions, Region, counters};
use std::path::{Path, PathBuf};

const LEN: u64 = 1 << 20;

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn options(domain: DomainRequest, emulate: bool) -> MapOptions {
    MapOptions { domain, emulate, ..MapOptions::new(LEN) }
}

fn store(region: &Region, off: u64, value: u64) {
    // SAFETY: no slice of the region is held by these tests while they store.
    unsafe { region.store(off, value) };
}

/// Stores, flushes, fences, closes and reads again.
fn check_round_trip(request: DomainRequest, emulate: bool, expect: (Domain, bool)) {
    let dir = dir();
    let path = dir.path().join("pool");
    let region = Region::open(&path, &options(request, emulate)).unwrap();
    assert_eq!((region.domain(), region.emulated()), expect, "{request:?}");
    assert!(region.is_empty());
    region.grow(LEN).unwrap();
    let before = counters();
    store(&region, 4096, 17);
    store(&region, 64 * 1024, 18);
    region.flush(4096, 8);
    region.flush(64 * 1024, 8);
    region.fence();
    let counted = counters().since(&before);
    assert_eq!((counted.fences, counted.lines), (1, 2), "{request:?}");
    assert!(!region.failed());
    region.sync_all().unwrap();
    drop(region);

    let again = Region::open(&path, &options(request, emulate)).unwrap();
    assert_eq!(again.len(), LEN);
    assert_eq!((again.load(4096), again.load(64 * 1024), again.load(0)), (17, 18, 0));
    assert_eq!(again.faults(), 0);
}

#[test]
fn each_domain_on_an_ordinary_file() {
    check_round_trip(DomainRequest::Msync, false, (Domain::Msync, false));
    check_round_trip(DomainRequest::Process, false, (Domain::Process, false));
    check_round_trip(DomainRequest::Process, true, (Domain::Process, false));
    check_round_trip(DomainRequest::Clwb, true, (Domain::Clwb, true));
    check_round_trip(DomainRequest::Eadr, true, (Domain::Eadr, true));
    check_round_trip(DomainRequest::Auto, true, (Domain::Clwb, true));
}

#[test]
fn without_map_sync_a_request_for_persistent_memory_is_refused_and_names_the_choices() {
    let check = |request: DomainRequest| {
        let dir = dir();
        let path = dir.path().join("pool");
        let error = Region::open(&path, &options(request, false)).unwrap_err();
        assert!(matches!(error, MapError::NoMapSync { .. }), "{error}");
        let text = error.to_string();
        for part in [
            path.to_str().unwrap(),
            request.name(),
            "MAP_SYNC",
            "msync",
            "process",
            "AOF backend",
            "Operation not supported",
        ] {
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
    };
    check(DomainRequest::Auto);
    check(DomainRequest::Clwb);
    check(DomainRequest::Eadr);
}

#[test]
fn what_is_neither_file_nor_dax_device_is_refused() {
    let check = |path: &Path, expect: &str| {
        let error = Region::open(path, &options(DomainRequest::Process, false)).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(Path::new("/dev/null"), "a character device that is not DAX");
    check(dir().path(), "directory");
    check(Path::new("/nonexistent/pool"), "open: No such file or directory");
}

#[test]
fn a_missing_file_is_created_only_if_asked() {
    let dir = dir();
    let path: PathBuf = dir.path().join("pool");
    let existing = MapOptions { create: false, ..options(DomainRequest::Process, false) };
    assert!(matches!(Region::open(&path, &existing), Err(MapError::Io { step: "open", .. })));
    assert!(!path.exists());
}

#[test]
fn anonymous_memory_is_volatile_counts_nothing_and_grows() {
    let region = Region::anonymous(1 << 40).unwrap();
    assert_eq!((region.domain(), region.len()), (Domain::Volatile, 0));
    region.grow(LEN).unwrap();
    let before = counters();
    store(&region, LEN - 8, 5);
    // SAFETY: nobody reads the range.
    unsafe { region.write_streaming(64, &[9; 4096]) };
    region.flush(0, 4096);
    region.fence();
    region.sync_all().unwrap();
    assert_eq!(counters(), before);
    assert_eq!(region.load(LEN - 8), 5);
    assert_eq!(region.load(64), u64::from_le_bytes([9; 8]));
}

#[test]
fn budgets_count_the_same_in_every_domain() {
    let check = |request, emulate| {
        let dir = dir();
        let region = Region::open(dir.path().join("pool"), &options(request, emulate)).unwrap();
        region.grow(LEN).unwrap();
        let before = counters();
        // SAFETY: nobody reads the range.
        unsafe { region.write_streaming(40, &[9; 2000]) };
        // SAFETY: as above.
        unsafe { region.write_streaming(8192, &[9; 100]) };
        region.fence();
        let counted = counters().since(&before);
        // 24 bytes of head and 56 of tail around 30 whole lines; then two lines through the cache.
        assert_eq!((counted.fences, counted.lines, counted.streamed), (1, 4, 1920), "{request:?}");
    };
    check(DomainRequest::Clwb, true);
    check(DomainRequest::Eadr, true);
    check(DomainRequest::Msync, false);
    check(DomainRequest::Process, false);
}
