//! Pools in real files below which system calls fail, and then the power.

use heap::{CommitError, CreateOptions, Geometry, Heap, View};
use pmem::{Call, DomainRequest, MapOptions, Region};
use rustix::io::Errno;
use sim::{Disk, FailingCall};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const BOOT: [u8; 16] = [1; 16];
const NEXT_BOOT: [u8; 16] = [2; 16];
const GEOMETRY: Geometry = Geometry { shards: 2, ring_parts: 4, ring_part: 512, zone_spans: 8 };
const SPAN: u64 = 65536;
const ZONE: u64 = 8 * SPAN;
const RESERVE: u64 = 8 * ZONE;
/// The number of power losses that are tried at one moment.
const CUTS: u64 = 8;
/// The number of transactions of the scenario in which each system call fails once.
const PUTS: u64 = 24;
/// The number of transactions after free space was given back.
const AGAIN: u64 = 12;
/// The transaction after a restart.
const LAST: u64 = PUTS + AGAIN + 1;

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    disk: Disk,
}

impl Pool {
    fn new() -> Pool {
        // `disk` decides what is durable: a real sync would only cost time.
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        let path = folder.path().join("pool");
        let disk = Disk::new(&path);
        Pool { _folder: folder, path, disk }
    }

    /// Opens the pool, or creates it, in the boot that has been running all the time.
    fn open(&self, domain: DomainRequest) -> Result<Heap, String> {
        open(&self.path, domain, BOOT)
    }

    /// Calls `check` with pools that power losses would leave now.
    fn cut(&self, check: impl Fn(&Heap)) {
        for seed in 0..CUTS {
            let left = self.disk.after_power_loss(&mut fastrand::Rng::with_seed(seed));
            let path = self.path.with_extension("left");
            fs::write(&path, left).expect("a copy");
            self.disk.with_other_files(|| {
                let heap = open(&path, DomainRequest::Msync, NEXT_BOOT);
                check(&heap.unwrap_or_else(|error| panic!("{error}, seed {seed}")));
            });
        }
    }
}

fn open(path: &Path, domain: DomainRequest, boot_id: [u8; 16]) -> Result<Heap, String> {
    let emulate = domain == DomainRequest::Clwb;
    let options = MapOptions { domain, emulate, ..MapOptions::new(RESERVE) };
    let region = Region::open(path, &options).map_err(|error| error.to_string())?;
    if Heap::is_blank(&region) {
        let options = CreateOptions { geometry: GEOMETRY, boot_id, ..CreateOptions::default() };
        return Heap::create(region, &options).map_err(|error| error.to_string());
    }
    Ok(Heap::open(region, boot_id).map_err(|error| error.to_string())?.0)
}

/// Puts a block with this number into a root of each shard, replacing what was there; returns true
/// if it was acknowledged.
fn put(heap: &Heap, number: u64) -> bool {
    let mut shards: Vec<_> = (0..heap.shards()).map(|shard| heap.lock(shard)).collect();
    for shard in &mut shards {
        let (root, counter) = (shard.root(number as usize % 8), shard.root(9));
        let old = heap::Ptr::from_raw(shard.word(root));
        if !old.is_null() {
            shard.free(old);
        }
        let bytes = bytes(number);
        let Ok(fresh) = shard.reserve(bytes.len()) else { return false };
        shard.write(&fresh, 0, &bytes);
        let block = shard.publish(fresh, bytes.len());
        shard.set(root, block.raw());
        shard.set(counter, number);
    }
    heap.commit_all(&mut shards).is_ok()
}

/// Returns a block's content. Every third block is a whole span, so that the pool grows.
fn bytes(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(if number.is_multiple_of(3) { 5000 } else { 375 })
}

/// Returns the number that was put last; each block must hold what was put into it.
fn newest(heap: &Heap) -> u64 {
    let mut found = Vec::new();
    for shard in 0..heap.shards() {
        let shard = heap.lock(shard);
        let newest = shard.word(shard.root(9));
        for number in newest.saturating_sub(7).max(1)..=newest {
            let block = heap::Ptr::from_raw(shard.word(shard.root(number as usize % 8)));
            assert!(!block.is_null(), "the block of {number} of {newest}");
            let bytes = bytes(number);
            let found = shard.bytes(block, bytes.len());
            assert!(found == bytes, "the bytes of {number} of {newest}");
        }
        found.push(newest);
    }
    assert!(found.iter().all(|newest| *newest == found[0]), "shards differ: {found:?}");
    assert!(heap.allocated().is_ok());
    found[0]
}

#[test]
fn what_a_process_pool_held_is_synced_before_it_counts_as_power_safe() {
    let pool = Pool::new();
    let heap = pool.open(DomainRequest::Process).expect("a pool");
    assert!((1..=30).all(|number| put(&heap, number)));
    // Killed, and opened again in the same boot as a pool that survives a power loss.
    drop(heap);
    let heap = pool.open(DomainRequest::Msync).expect("a pool");
    assert_eq!(newest(&heap), 30);
    pool.cut(|left| assert_eq!(newest(left), 30));
    assert!(put(&heap, 31));
    pool.cut(|left| assert_eq!(newest(left), 31));
}

#[test]
fn so_is_what_it_held_on_persistent_memory() {
    let pool = Pool::new();
    let heap = pool.open(DomainRequest::Process).expect("a pool");
    assert!((1..=30).all(|number| put(&heap, number)));
    drop(heap);
    pool.disk.emulate_persistent_memory();
    let heap = pool.open(DomainRequest::Clwb).expect("a pool");
    assert!(!heap.region().emulated());
    let synced = pool.path.with_extension("synced");
    fs::write(&synced, pool.disk.synced()).expect("a copy");
    let left = pool.disk.with_other_files(|| open(&synced, DomainRequest::Process, BOOT));
    assert_eq!(newest(&left.expect("a pool")), 30);
}

#[test]
fn a_process_pool_whose_sync_fails_does_not_count_as_power_safe() {
    let pool = Pool::new();
    let heap = pool.open(DomainRequest::Process).expect("a pool");
    assert!((1..=30).all(|number| put(&heap, number)));
    drop(heap);
    pool.disk.fail(Some(FailingCall { call: Call::Sync, after: 0, errno: Errno::IO }));
    assert!(pool.open(DomainRequest::Msync).is_err());
    assert!(pool.disk.fail(None), "a sync failed");
    assert_eq!(newest(&pool.open(DomainRequest::Process).expect("a pool")), 30);
}

#[test]
fn what_recovery_accepts_after_a_failed_sync_is_written_again() {
    for (before, after) in [1, 2, 5, 12].into_iter().flat_map(|before| [(before, 0), (before, 1)]) {
        let pool = Pool::new();
        let heap = pool.open(DomainRequest::Msync).expect("a pool");
        assert!((1..=before).all(|number| put(&heap, number)));
        pool.disk.fail(Some(FailingCall { call: Call::Sync, after, errno: Errno::IO }));
        let refused = (before + 1..=before + 2).find(|number| !put(&heap, *number));
        assert!(pool.disk.fail(None) && refused.is_some(), "a sync failed");
        drop(heap);
        let heap = pool.open(DomainRequest::Msync).expect("a pool");
        let served = newest(&heap);
        assert!(served >= before, "{served} of {before}");
        pool.cut(|left| assert_eq!(newest(left), served, "served before the power was lost"));
        assert!((served + 1..=served + 3).all(|number| put(&heap, number)));
        pool.cut(|left| assert_eq!(newest(left), served + 3, "{before}, {after}"));
    }
}

/// Creates a pool, fills it until it has grown, gives free space back and uses it again, closes it,
/// opens it and continues. Returns the last acknowledged number and, if something failed, the
/// error.
fn scenario(pool: &Pool, domain: DomainRequest) -> (u64, Option<String>) {
    let mut acknowledged = 0;
    let made = pool.open(domain).and_then(|heap| {
        for number in 1..=PUTS + AGAIN {
            if number == PUTS + 1 {
                heap.purge();
            }
            if !put(&heap, number) {
                return Err("a put was refused".to_owned());
            }
            acknowledged = number;
        }
        assert!(heap.size() > 2 * ZONE, "it has grown: {} bytes", heap.size());
        heap.close().map_err(|error| error.to_string())
    });
    let opened = made.and_then(|()| pool.open(domain)).and_then(|heap| {
        assert_eq!(newest(&heap), acknowledged, "after a close");
        if put(&heap, LAST) {
            acknowledged = LAST;
        }
        heap.close().map_err(|error| error.to_string())
    });
    (acknowledged, opened.err())
}

/// Makes each system call of the scenario fail once, alone: what was acknowledged is there after a
/// restart and, if the domain survives it, after a power loss before or after the restart.
fn check_each_call(domain: DomainRequest, survives_power_loss: bool) {
    let mut failures = 0;
    for call in Call::ALL {
        let errno = if call == Call::Allocate { Errno::NOSPC } else { Errno::IO };
        for after in 0.. {
            let pool = Pool::new();
            pool.disk.fail(Some(FailingCall { call, after, errno }));
            let (acknowledged, said) = scenario(&pool, domain);
            if !pool.disk.fail(None) {
                assert_eq!((acknowledged, said), (LAST, None), "nothing failed");
                break;
            }
            failures += 1;
            let place = format!("{call:?} {after} in {domain:?}: {acknowledged}, {said:?}");
            let check = |found: u64| assert!(found >= acknowledged, "{found} found: {place}");
            if survives_power_loss {
                pool.cut(|left| check(newest(left)));
            }
            let heap = pool.open(domain).unwrap_or_else(|error| panic!("{error}: {place}"));
            let served = newest(&heap);
            check(served);
            assert!(put(&heap, served + 1), "{place}");
            if survives_power_loss {
                pool.cut(|left| assert_eq!(newest(left), served + 1, "{place}"));
            }
        }
    }
    assert!(failures > 3, "{failures} system calls failed");
}

#[test]
fn each_system_call_that_fails_costs_nothing_acknowledged_with_msync() {
    check_each_call(DomainRequest::Msync, true);
}

#[test]
fn nor_where_the_end_of_the_process_is_survived() {
    check_each_call(DomainRequest::Process, false);
}

#[test]
fn nor_by_the_instructions_of_persistent_memory() {
    check_each_call(DomainRequest::Clwb, false);
}

/// A file system that, for the calling thread, may be full or make no holes.
#[derive(Default)]
struct Moody {
    is_full: AtomicBool,
    /// Full, and reserves nothing again that it has reserved: as XFS does.
    reserves_nothing: AtomicBool,
    makes_no_holes: AtomicBool,
    refuses_holes: AtomicBool,
    refused: AtomicU64,
    allocated: AtomicU64,
    /// The starts of the holes that were made.
    punched: Mutex<Vec<u64>>,
}

impl pmem::Calls for Moody {
    fn before(&self, call: Call) -> Result<(), Errno> {
        match call {
            Call::Allocate | Call::Write if self.is_full.load(Relaxed) => Err(Errno::NOSPC),
            Call::Allocate if self.reserves_nothing.load(Relaxed) => Err(Errno::NOSPC),
            Call::Punch if self.makes_no_holes.load(Relaxed) => Err(Errno::OPNOTSUPP),
            Call::Punch if self.refuses_holes.load(Relaxed) => {
                self.refused.fetch_add(1, Relaxed);
                Err(Errno::NOSPC)
            }
            Call::Allocate => {
                self.allocated.fetch_add(1, Relaxed);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn stored(&self, at: u64, len: u64) {
        if len >= SPAN {
            self.punched.lock().expect("no panic").push(at);
        }
    }

    fn synced(&self, _at: u64, _len: u64, _well: bool) {}
}

impl Moody {
    fn watch() -> Arc<Moody> {
        let calls = Arc::new(Moody::default());
        pmem::watch_calls(Some(calls.clone()));
        calls
    }
}

/// Puts a block of a whole span into a separate root; returns true if it was acknowledged.
fn hoard(heap: &Heap, number: usize) -> bool {
    let mut shard = heap.lock(number % 2);
    let Ok(fresh) = shard.reserve(40_000) else { return false };
    shard.write(&fresh, 0, &[7; 40_000]);
    let block = shard.publish(fresh, 40_000);
    shard.set(shard.root(10 + number), block.raw());
    shard.commit().is_ok()
}

/// Frees everything that `put` and `hoard` have put.
fn clear(heap: &Heap) -> bool {
    let mut shards: Vec<_> = (0..heap.shards()).map(|shard| heap.lock(shard)).collect();
    for shard in &mut shards {
        shard.allow_reserve(true);
        for root in (0..8).chain(10..60).map(|n| shard.root(n)).collect::<Vec<_>>() {
            let block = heap::Ptr::from_raw(shard.word(root));
            shard.set(root, 0);
            if !block.is_null() {
                shard.free(block);
            }
        }
        shard.set(shard.root(9), 0);
    }
    heap.commit_all(&mut shards).is_ok()
}

#[test]
fn a_file_system_that_is_full_when_space_is_needed_again_refuses_the_write() {
    for (domain, is_restarted) in [
        (DomainRequest::Process, false),
        (DomainRequest::Process, true),
        (DomainRequest::Msync, false),
        (DomainRequest::Clwb, true),
    ] {
        // Not in memory: there a store at the file's start may allocate a huge page.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let calls = Moody::watch();
        let mut heap = open(&path, domain, BOOT).expect("a pool");
        assert!((1..=PUTS).all(|number| put(&heap, number)));
        assert!(heap.purge() > 0);
        if is_restarted {
            drop(heap);
            heap = open(&path, domain, BOOT).expect("a pool");
        }
        calls.is_full.store(true, Relaxed);
        assert!((0..50).any(|number| !hoard(&heap, number)), "{domain:?}: a refusal");
        assert!(!heap.is_poisoned(), "{domain:?}");
        assert_eq!(newest(&heap), PUTS, "{domain:?}: what was there is there");
        assert!(clear(&heap), "{domain:?}: deletes go on");
        assert!(put(&heap, 1), "{domain:?}: in what they freed");
        let before = calls.allocated.load(Relaxed);
        calls.is_full.store(false, Relaxed);
        assert!((2..=PUTS).all(|number| put(&heap, number)), "{domain:?}");
        assert!((0..20).all(|number| hoard(&heap, number)), "{domain:?}");
        assert!(calls.allocated.load(Relaxed) > before, "{domain:?}");
        drop(heap);
        assert_eq!(newest(&open(&path, domain, BOOT).expect("a pool")), PUTS);
        pmem::watch_calls(None);
    }
}

#[test]
fn a_restart_on_a_full_disk_refuses_no_delete_with_a_journal() {
    for (is_closed, puts) in [(false, PUTS), (true, PUTS), (true, 4)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let calls = Moody::watch();
        let heap = open(&path, DomainRequest::Journal, BOOT).expect("a pool");
        assert!((1..=puts).all(|number| put(&heap, number)));
        match is_closed {
            true => heap.close().expect("a clean close"),
            false => heap.region().sync_up_to(heap.region().appended()).expect("a sync"),
        }
        drop(heap);
        calls.reserves_nothing.store(true, Relaxed);
        let heap = open(&path, DomainRequest::Journal, BOOT).expect("a pool");
        assert_eq!(newest(&heap), puts);
        // A delete that takes a block before it frees one.
        for number in puts + 1..puts + 3 {
            assert!(put(&heap, number), "{number} after {puts}, closed: {is_closed}");
        }
        assert!(clear(&heap), "deletes go on");
        assert!(put(&heap, 1), "in what they freed");
        heap.region().checkpoint().expect("all of it has its space");
        assert!(!heap.is_poisoned() && heap.region().journal_failure().is_none());
        calls.reserves_nothing.store(false, Relaxed);
        assert!((2..=PUTS).all(|number| put(&heap, number)));
        heap.close().expect("a clean close");
        drop(heap);
        let heap = open(&path, DomainRequest::Journal, BOOT).expect("a pool");
        assert_eq!(newest(&heap), PUTS);
        pmem::watch_calls(None);
    }
}

#[test]
fn a_new_pool_with_a_journal_refuses_a_write_for_which_its_disk_has_no_space() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = Moody::watch();
    let heap = open(&folder.path().join("pool"), DomainRequest::Journal, BOOT).expect("a pool");
    calls.reserves_nothing.store(true, Relaxed);
    assert!(!put(&heap, 1) && !heap.is_poisoned());
    assert_eq!(heap.free_space(), 0, "no span has its space");
    calls.reserves_nothing.store(false, Relaxed);
    assert!((1..=PUTS).all(|number| put(&heap, number)));
    assert_eq!(newest(&heap), PUTS);
    pmem::watch_calls(None);
}

/// Changes words of these shards in one commit, and no block.
fn set_words(heap: &Heap, shards: &[usize], value: u64) -> Result<(), CommitError> {
    let mut shards: Vec<_> = shards.iter().map(|shard| heap.lock(*shard)).collect();
    shards.iter_mut().for_each(|shard| shard.set(shard.root(60), value));
    heap.commit_all(&mut shards)
}

/// Somebody may swap empty databases, or a replica note its place, before there is any block.
#[test]
fn a_record_without_space_for_its_log_is_refused_and_the_first_shard_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let domain = DomainRequest::Journal;
    let region = Region::open(&path, &MapOptions { domain, ..MapOptions::new(RESERVE) });
    // No two logs have a page in common.
    let geometry = Geometry { ring_part: 4096, ..GEOMETRY };
    let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
    let mut heap = Heap::create(region.expect("a region"), &options).expect("a pool");
    let calls = Moody::watch();
    calls.reserves_nothing.store(true, Relaxed);
    for n in 1..3 {
        assert_eq!(set_words(&heap, &[0], n), Ok(()), "{n}");
        assert_eq!(set_words(&heap, &[1], n), Err(CommitError::Full), "{n}");
        assert_eq!(set_words(&heap, &[0, 1], n + 1), Err(CommitError::Full), "{n}");
        let found = [0, 1].map(|shard| heap.lock(shard)).map(|shard| shard.word(shard.root(60)));
        assert_eq!(found, [n, 0], "what was refused has no effect");
        heap.region().checkpoint().expect("the log has its space");
        assert!(!heap.is_poisoned() && heap.region().journal_failure().is_none());
        drop(heap);
        heap = open(&path, domain, BOOT).expect("a pool");
    }
    calls.reserves_nothing.store(false, Relaxed);
    assert_eq!(set_words(&heap, &[0, 1], 3), Ok(()));
    assert!(put(&heap, 1));
    pmem::watch_calls(None);
}

/// Writers reserve space themselves, as if the background were late each time: each reservation is
/// synced.
#[test]
fn a_new_pool_with_a_journal_reserves_its_first_zone_in_a_few_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = MapOptions {
        domain: DomainRequest::Journal,
        journal_size: 64 << 10,
        ..MapOptions::new(80 << 20)
    };
    let region = Region::open(folder.path().join("pool"), &options).expect("a region");
    let geometry = Geometry { zone_spans: 1024, ..GEOMETRY };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::create(region, &options).expect("a pool");
    let calls = Moody::watch();
    let reserve = |number: usize| {
        let mut shard = heap.lock(number % 2);
        let fresh = shard.reserve(60_000).expect("space");
        shard.publish(fresh, 0);
        shard.commit().expect("a commit");
    };
    (0..2).for_each(reserve);
    let (taken, steps) = (heap.space_taken(), calls.allocated.swap(0, Relaxed));
    assert!(taken <= 4 << 20 && steps <= 3, "{taken} bytes, {steps} steps");
    (2..1000).for_each(reserve);
    let steps = calls.allocated.load(Relaxed);
    assert!(steps <= 12, "{steps} steps");
    pmem::watch_calls(None);
}

#[test]
fn where_a_file_system_makes_no_holes_space_is_kept() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let calls = Moody::watch();
    let heap = open(&folder.path().join("pool"), DomainRequest::Process, BOOT).expect("a pool");
    assert!((1..=PUTS).all(|number| put(&heap, number)));
    calls.makes_no_holes.store(true, Relaxed);
    assert!(heap.gives_space_back());
    assert_eq!((heap.purge(), heap.given_back(), heap.gives_space_back()), (0, 0, false));
    assert!(heap.space_taken() >= heap.size());
    let allocated = calls.allocated.load(Relaxed);
    assert!((PUTS + 1..=PUTS + 3).all(|number| put(&heap, number)));
    assert_eq!(calls.allocated.load(Relaxed), allocated, "nothing is reserved twice");
    assert_eq!(newest(&heap), PUTS + 3);
    heap.ask_purge();
    while heap.purge_step() {}
    assert!(!heap.is_purging(), "a purge that can give nothing back is done");
    pmem::watch_calls(None);
}

/// Writers come between two steps of a purge and take what it kept for deletes.
#[test]
fn a_purge_next_to_writers_leaves_what_deletes_need() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = folder.path().join("pool");
    // All blocks before the purge, steps before the writers come, and blocks that they put.
    for case in 0..8 * 10 * 8 {
        let (before, steps, puts) = (case / 80, case / 8 % 10, case % 8);
        let calls = Moody::watch();
        let heap = open(&path, DomainRequest::Process, BOOT).expect("a pool");
        assert!((0..before).all(|number| hoard(&heap, number)));
        while heap.grow_ahead() {}
        heap.ask_purge();
        (0..steps).for_each(|_| _ = heap.purge_step());
        let puts = (0..puts).filter(|number| hoard(&heap, 10 + number)).count();
        while heap.purge_step() {}
        calls.is_full.store(true, Relaxed);
        let mut shard = heap.lock(0);
        shard.allow_reserve(true);
        let reserved = shard.reserve(40_000);
        assert!(reserved.is_ok(), "{before} blocks, {steps} steps, {puts} blocks");
        pmem::watch_calls(None);
        drop(reserved);
        drop(shard);
        drop(heap);
        fs::remove_file(&path).expect("the pool");
    }
}

/// Fills some zones with blocks of a span each, opens the pool again and frees a few of them.
fn filled(path: &Path) -> Heap {
    let heap = open(path, DomainRequest::Process, BOOT).expect("a pool");
    assert!((0..44).all(|number| hoard(&heap, number)));
    drop(heap);
    let heap = open(path, DomainRequest::Process, BOOT).expect("a pool");
    for number in 0..16 {
        let mut shard = heap.lock(number % 2);
        let root = shard.root(10 + number);
        let block = heap::Ptr::from_raw(shard.word(root));
        shard.set(root, 0);
        shard.free(block);
        shard.commit().expect("a commit");
    }
    heap
}

/// Truncates the file at its last zone, which begins with a part of the span table: like a medium
/// that loses it.
fn lose_last_zone(path: &Path, heap: &Heap) -> u64 {
    let at = heap.size() - ZONE;
    let file = fs::OpenOptions::new().write(true).open(path).expect("the pool");
    file.set_len(at).expect("a shorter file");
    assert!(!heap.region().has_unresolved_losses(), "nobody has met it");
    at
}

#[test]
fn a_lost_part_of_the_span_table_says_of_no_span_that_it_is_free() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = folder.path().join("pool");
    let heap = filled(&path);
    let at = lose_last_zone(&path, &heap);
    let calls = Moody::watch();
    heap.purge();
    pmem::watch_calls(None);
    assert!(heap.region().has_unresolved_losses(), "the purge was the first to meet it");
    let punched = std::mem::take(&mut *calls.punched.lock().expect("no panic"));
    assert!(!punched.is_empty());
    assert!(punched.iter().all(|hole| *hole < at), "live data of {at} and after: {punched:?}");
}

#[test]
fn nor_does_it_to_a_writer() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let path = folder.path().join("pool");
    let heap = filled(&path);
    let at = lose_last_zone(&path, &heap);
    let mut shard = heap.lock(0);
    let taken: Vec<u64> = std::iter::from_fn(|| {
        let fresh = shard.reserve(40_000).ok()?;
        Some(shard.publish(fresh, 40_000).raw())
    })
    .take(100)
    .collect();
    assert!(heap.region().has_unresolved_losses() && taken.len() < 100);
    assert!(taken.iter().all(|block| *block < at), "live data of {at} and after: {taken:?}");
}

#[test]
fn a_hole_that_is_refused_is_not_asked_for_again_and_again() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let calls = Moody::watch();
    let heap = open(&folder.path().join("pool"), DomainRequest::Process, BOOT).expect("a pool");
    assert!((1..=PUTS).all(|number| put(&heap, number)) && clear(&heap));
    calls.refuses_holes.store(true, Relaxed);
    assert_eq!(heap.purge(), 0);
    assert!((0..3).all(|_| !heap.give_back()));
    assert_eq!(calls.refused.load(Relaxed), 1);
    assert!(heap.gives_space_back(), "it may be possible later");
    let allocated = calls.allocated.load(Relaxed);
    assert!((1..=8).all(|number| put(&heap, number)));
    assert_eq!(calls.allocated.load(Relaxed), allocated, "the space is there still");
    calls.refuses_holes.store(false, Relaxed);
    assert!(clear(&heap) && heap.purge() > 0);
    pmem::watch_calls(None);
}
