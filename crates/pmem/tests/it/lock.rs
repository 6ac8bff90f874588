//! Only one process at a time works on a file.

#![allow(unsafe_code, reason = "a descriptor is borrowed by its number")]

use pmem::{DomainRequest, MapError, MapOptions, Region};
use std::os::fd::BorrowedFd;
use std::process::Command;

#[test]
fn a_file_is_open_once_and_free_again_when_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 20) };
    let region = Region::open(&path, &options).unwrap();

    let error = Region::open(&path, &options).unwrap_err();
    assert!(matches!(&error, MapError::Locked { path: locked, .. } if *locked == path), "{error}");
    let named = format!("another process has locked it (process {})", std::process::id());
    assert!(error.to_string().ends_with(&named), "{error}");

    drop(region);
    Region::open(&path, &options).unwrap();
}

#[test]
fn a_file_that_is_held_for_a_moment_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 20) };
    let map = || Region::open(&path, &options);
    pmem::when_unlocked(map, |_| panic!("nobody has the file")).unwrap();

    let held = std::cell::Cell::new(Some(map().unwrap()));
    pmem::when_unlocked(map, |holder| {
        assert_eq!(holder, Some(std::process::id()));
        drop(held.take());
    })
    .unwrap();
    assert!(held.take().is_none(), "the lock was waited for");
}

/// Like a child that was forked by another thread and has not yet executed its program.
#[test]
fn a_descriptor_that_lives_on_keeps_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("pool");
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 20) };
    let region = Region::open(&path, &options).unwrap();
    let mut open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = open.find(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path)).unwrap();
    let number = ours.file_name().to_str().unwrap().parse().unwrap();
    // SAFETY: the region has the descriptor open.
    let copy = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().unwrap();
    drop(region);
    Region::open(&path, &options).unwrap();
    drop(copy);
}

#[test]
fn a_lock_of_another_process_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 20) };
    std::fs::write(&path, []).unwrap();
    // flock(1) reports when it holds the lock, and holds it until its input ends.
    let mut holder = Command::new("flock")
        .arg(&path)
        .args(["sh", "-c", "echo locked; cat >/dev/null"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "locked\n");
    assert!(matches!(Region::open(&path, &options), Err(MapError::Locked { .. })));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    Region::open(&path, &options).unwrap();
}

#[test]
fn a_process_that_lives_on_is_refused_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 20) };
    let _held = Region::open(&path, &options).unwrap();
    let began = std::time::Instant::now();
    let refused = pmem::when_unlocked(|| Region::open(&path, &options), |_| ());
    assert!(matches!(refused, Err(MapError::Locked { .. })));
    assert!(began.elapsed() < std::time::Duration::from_millis(2950), "{:?}", began.elapsed());
}

#[test]
fn a_pool_is_not_its_own_journal() {
    let dir = tempfile::tempdir().unwrap();
    let [pool, link] = ["pool", "link"].map(|name| dir.path().join(name));
    std::os::unix::fs::symlink(&pool, &link).unwrap();
    for journal in [&pool, &link] {
        let domain = DomainRequest::Journal;
        let journal = Some(journal.clone());
        let options = MapOptions { domain, journal, ..MapOptions::new(1 << 20) };
        let error = Region::open(&pool, &options).unwrap_err();
        assert!(matches!(error, MapError::OwnJournal { .. }), "{error}");
        assert!(!pool.exists());
    }
}

#[test]
fn a_file_that_was_created_for_nothing_is_removed() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let clwb = MapOptions { domain: DomainRequest::Clwb, ..MapOptions::new(1 << 20) };
    let process = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 20) };
    let error = Region::open(&path, &clwb).unwrap_err();
    assert!(matches!(error, MapError::NoMapSync { .. }), "{error}");
    assert!(!path.exists(), "created for a refused mapping");

    drop(Region::open(&path, &process).unwrap());
    assert!(!path.exists(), "created and never grown");

    std::fs::write(&path, []).unwrap();
    drop(Region::open(&path, &process).unwrap());
    assert!(path.exists(), "somebody else's");
    std::fs::remove_file(&path).unwrap();

    let region = Region::open(&path, &process).unwrap();
    region.grow(1 << 20).unwrap();
    drop(region);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
