//! Pools with a journal: if closed they are ordinary pools, otherwise they need it.

use heap::{CreateOptions, Geometry, Heap, OpenError, View};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs;
use std::path::{Path, PathBuf};

const GEOMETRY: Geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 512, zone_spans: 8 };
const BOOT: [u8; 16] = [1; 16];

struct Files {
    _folder: tempfile::TempDir,
    pool: PathBuf,
    journal: PathBuf,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let (pool, journal) = (folder.path().join("pool"), folder.path().join("pool.journal"));
        Files { _folder: folder, pool, journal }
    }

    fn region(&self, domain: DomainRequest) -> Region {
        region_at(&self.pool, domain)
    }

    fn create(&self, domain: DomainRequest) -> Heap {
        let options = CreateOptions { geometry: GEOMETRY, uuid: [5; 16], ..Default::default() };
        Heap::create(self.region(domain), &options).unwrap()
    }

    fn open(&self, domain: DomainRequest) -> Result<Heap, OpenError> {
        Ok(Heap::open(self.region(domain), BOOT)?.0)
    }

    fn check_refused(&self, domain: DomainRequest, expect: &str) {
        let Err(error) = self.open(domain) else { panic!("it was opened") };
        let error = error.to_string();
        assert!(error.contains(expect), "{error}");
    }
}

fn region_at(path: &Path, domain: DomainRequest) -> Region {
    let options = MapOptions { domain, journal_size: 64 << 10, ..MapOptions::new(16 << 20) };
    Region::open(path, &options).unwrap()
}

fn put(heap: &Heap, n: usize, value: u64) {
    let mut shard = heap.lock(n % 2);
    shard.set(shard.root(n), value);
    shard.commit().unwrap();
}

fn get(heap: &Heap, n: usize) -> u64 {
    let shard = heap.lock(n % 2);
    shard.word(shard.root(n))
}

fn sync(heap: &Heap) {
    heap.region().sync_up_to(heap.region().appended()).unwrap();
}

#[test]
fn a_pool_comes_back_from_its_journal_and_closed_it_is_an_ordinary_pool() {
    let files = Files::new();
    let heap = files.create(DomainRequest::Journal);
    (0..60).for_each(|n| put(&heap, n, n as u64 + 1));
    sync(&heap);
    drop(heap);

    for domain in [DomainRequest::Process, DomainRequest::Msync] {
        files.check_refused(domain, "open it with domain journal");
    }
    let before = (fs::read(&files.pool).unwrap(), fs::read(&files.journal).unwrap());
    let (heap, recovery) = Heap::open(Region::inspect(&files.pool).unwrap(), BOOT).unwrap();
    assert!((0..60).all(|n| get(&heap, n) == n as u64 + 1));
    assert!(recovery.journal.is_some_and(|journal| journal.batches > 0));
    drop(heap);
    assert!(before == (fs::read(&files.pool).unwrap(), fs::read(&files.journal).unwrap()));

    let heap = files.open(DomainRequest::Journal).unwrap();
    assert!((0..60).all(|n| get(&heap, n) == n as u64 + 1));
    put(&heap, 1, 100);
    heap.close().unwrap();
    drop(heap);

    let moved = files.pool.with_extension("moved");
    fs::copy(&files.pool, &moved).unwrap();
    let (heap, recovery) = Heap::open(region_at(&moved, DomainRequest::Process), BOOT).unwrap();
    assert!(recovery.clean && get(&heap, 1) == 100 && get(&heap, 2) == 3);

    let heap = files.open(DomainRequest::Msync).unwrap();
    put(&heap, 2, 200);
    heap.close().unwrap();
    drop(heap);
    let heap = files.open(DomainRequest::Journal).unwrap();
    assert_eq!((get(&heap, 1), get(&heap, 2)), (100, 200));
    heap.close().unwrap();
}

#[test]
fn a_pool_of_another_domain_that_was_not_closed_gets_a_journal() {
    let files = Files::new();
    let heap = files.create(DomainRequest::Msync);
    (0..20).for_each(|n| put(&heap, n, 7));
    drop(heap);
    let heap = files.open(DomainRequest::Journal).unwrap();
    put(&heap, 3, 8);
    sync(&heap);
    drop(heap);
    let heap = files.open(DomainRequest::Journal).unwrap();
    assert_eq!((get(&heap, 2), get(&heap, 3)), (7, 8));
}

/// Replaces a file with a copy that has holes where the file has zeros.
fn make_sparse(path: &Path) {
    let copy = path.with_extension("copy");
    let mut cp = std::process::Command::new("cp");
    assert!(cp.arg("--sparse=always").arg(path).arg(&copy).status().unwrap().success());
    fs::rename(copy, path).unwrap();
}

#[test]
fn a_sparse_copy_of_a_journal_gets_its_space_when_it_is_opened() {
    use std::os::unix::fs::MetadataExt;
    for is_closed in [true, false] {
        let files = Files::new();
        let heap = files.create(DomainRequest::Journal);
        put(&heap, 1, 7);
        match is_closed {
            true => heap.close().unwrap(),
            false => sync(&heap),
        }
        drop(heap);
        let space = || fs::metadata(&files.journal).unwrap().blocks() * 512;
        let whole = space();
        make_sparse(&files.journal);
        assert!(space() < whole / 2, "the copy is sparse");
        let heap = files.open(DomainRequest::Journal).unwrap();
        assert!(space() >= whole, "{} of {whole}, closed: {is_closed}", space());
        assert_eq!(get(&heap, 1), 7);
        put(&heap, 1, 8);
        sync(&heap);
    }
}

#[test]
fn a_journal_that_does_not_belong_to_the_pool_is_refused_and_nothing_changes() {
    let files = Files::new();
    let heap = files.create(DomainRequest::Journal);
    heap.close().unwrap();
    drop(heap);
    let closed = fs::read(&files.pool).unwrap();
    let heap = files.open(DomainRequest::Journal).unwrap();
    put(&heap, 1, 5);
    sync(&heap);
    drop(heap);
    let (pool, journal) = (fs::read(&files.pool).unwrap(), fs::read(&files.journal).unwrap());

    // An older copy of the pool.
    fs::write(&files.pool, &closed).unwrap();
    files.check_refused(DomainRequest::Journal, "another incarnation of the pool");
    assert!(fs::read(&files.pool).unwrap() == closed);
    assert!(fs::read(&files.journal).unwrap() == journal);
    // No journal.
    fs::write(&files.pool, &pool).unwrap();
    fs::remove_file(&files.journal).unwrap();
    files.check_refused(DomainRequest::Journal, "is missing");
    assert!(!files.journal.exists());
    // The journal of another pool.
    let other = Files::new();
    let options = CreateOptions { geometry: GEOMETRY, uuid: [6; 16], ..Default::default() };
    drop(Heap::create(other.region(DomainRequest::Journal), &options).unwrap());
    fs::copy(&other.journal, &files.journal).unwrap();
    files.check_refused(DomainRequest::Journal, "belongs to another pool");

    fs::write(&files.journal, &journal).unwrap();
    assert_eq!(get(&files.open(DomainRequest::Journal).unwrap(), 1), 5);
}

#[test]
fn two_copies_of_a_closed_pool_do_not_accept_each_others_journal() {
    let (one, other) = (Files::new(), Files::new());
    one.create(DomainRequest::Journal).close().unwrap();
    fs::copy(&one.pool, &other.pool).unwrap();
    fs::copy(&one.journal, &other.journal).unwrap();
    for (files, value) in [(&one, 5), (&other, 6)] {
        let heap = files.open(DomainRequest::Journal).unwrap();
        put(&heap, 1, value);
        sync(&heap);
    }
    let journals = [&one, &other].map(|files| fs::read(&files.journal).unwrap());
    fs::write(&one.journal, &journals[1]).unwrap();
    fs::write(&other.journal, &journals[0]).unwrap();
    for files in [&one, &other] {
        files.check_refused(DomainRequest::Journal, "another incarnation of the pool");
    }
}

#[test]
fn an_older_copy_of_an_open_pool_is_refused() {
    let files = Files::new();
    let heap = files.create(DomainRequest::Journal);
    put(&heap, 1, 5);
    heap.region().checkpoint().unwrap();
    let old = fs::read(&files.pool).unwrap();
    put(&heap, 2, 6);
    heap.region().checkpoint().unwrap();
    put(&heap, 3, 7);
    sync(&heap);
    drop(heap);
    let new = fs::read(&files.pool).unwrap();
    fs::write(&files.pool, &old).unwrap();
    files.check_refused(DomainRequest::Journal, "older than its journal");
    let inspected = Heap::open(Region::inspect(&files.pool).unwrap(), BOOT).map(|_| ());
    assert!(inspected.unwrap_err().to_string().contains("older than its journal"));
    fs::write(&files.pool, new).unwrap();
    let heap = files.open(DomainRequest::Journal).unwrap();
    assert_eq!([1, 2, 3].map(|n| get(&heap, n)), [5, 6, 7]);
}

#[test]
fn a_commit_takes_the_fences_that_it_takes_in_other_domains() {
    let count = |domain| {
        let files = Files::new();
        let heap = files.create(domain);
        put(&heap, 1, 1);
        let before = pmem::counters();
        (0..40).for_each(|n| put(&heap, n % 8, 2));
        let counted = pmem::counters().since(&before);
        (counted.fences, counted.streamed)
    };
    assert_eq!(count(DomainRequest::Journal), count(DomainRequest::Process));
}

#[test]
fn a_pool_that_left_its_journal_has_everything_and_begins_another() {
    let files = Files::new();
    let heap = files.create(DomainRequest::Journal);
    (0..20).for_each(|n| put(&heap, n, 7));
    heap.region().hold_journal(true);
    assert!(heap.leave_journal().is_err(), "it keeps what it has");
    heap.region().hold_journal(false);
    fs::remove_file(&files.journal).unwrap();
    heap.leave_journal().unwrap();
    put(&heap, 3, 8);
    drop(heap);
    assert!(!files.journal.exists());
    let heap = files.open(DomainRequest::Journal).unwrap();
    assert_eq!((get(&heap, 2), get(&heap, 3)), (7, 8));
    put(&heap, 2, 9);
    sync(&heap);
    drop(heap);
    let heap = files.open(DomainRequest::Journal).unwrap();
    assert_eq!((get(&heap, 2), get(&heap, 3)), (9, 8));
}
