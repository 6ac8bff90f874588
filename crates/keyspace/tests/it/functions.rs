//! Function libraries in the heap: each change is one transaction with one fence, a crash leaves
//! the state before or after it, and everything that works on databases includes them.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{NOW, SEED, db, emulated, set, volatile};
use heap::{CreateOptions, Geometry, Heap, Salvage};
use keyspace::{CheckError, Defragmentation, Keyspace, SalvageOptions, Scrub, SnapshotLost};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};

const SHARDS: usize = 2;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn code(byte: u8, len: usize) -> Vec<u8> {
    let mut code = b"#!lua name=x\n".to_vec();
    code.resize(len.max(code.len()), byte);
    code
}

/// Returns all libraries, each of which must be sound.
fn libraries(ks: &Keyspace) -> State {
    let mut state = State::new();
    ks.begin_all(NOW).for_each_library(|name, code| {
        let before = state.insert(name.to_vec(), code.expect("a sound library"));
        assert_eq!(before, None, "a library is shown once");
    });
    assert_eq!(ks.libraries(), state.len() as u64);
    state
}

fn put(ks: &Keyspace, name: &str, code: &[u8]) {
    let mut txn = ks.begin_all(NOW);
    txn.libraries().put(name.as_bytes(), code).expect("free memory");
    txn.commit().expect("a commit");
}

#[derive(Debug)]
enum Plan {
    /// Creates or replaces libraries: number of the name, byte, length.
    Put(Vec<(usize, u8, usize)>),
    Delete(usize),
    Flush,
    /// Deletes all libraries, and creates one.
    Restore(usize, u8, usize),
    Reclaim(usize),
    Defragment(usize),
}

struct Subjected;

fn geometry() -> Geometry {
    Geometry { shards: SHARDS, ring_parts: 3, ring_part: 512, zone_spans: 20 }
}

fn name(n: usize) -> Vec<u8> {
    format!("library_{n}").into_bytes()
}

impl Subject for Subjected {
    type State = State;
    type Plan = Plan;
    type Store = Keyspace;

    fn reserve(&self) -> usize {
        geometry().zone_spans * 65536 * 2 - 1
    }

    fn empty(&self) -> State {
        State::new()
    }

    fn open(&self, region: Region) -> Result<Keyspace, String> {
        let heap = if Heap::is_blank(&region) {
            let options =
                CreateOptions { geometry: geometry(), hash_seed: SEED, ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Keyspace::new(heap, NOW))
    }

    fn read(&self, ks: &mut Keyspace) -> Result<State, String> {
        let (mut state, mut damage) = (State::new(), None);
        ks.begin_all(NOW).for_each_library(|name, code| match code {
            Ok(code) => drop(state.insert(name.to_vec(), code)),
            Err(error) => damage = Some(error.to_string()),
        });
        let checked = ks.check().map_err(|error| error.to_string())?;
        assert_eq!((checked.libraries, checked.keys), (state.len() as u64, 0));
        damage.map_or(Ok(state), Err)
    }

    fn plan(&self, state: &State, rng: &mut fastrand::Rng) -> (Plan, State) {
        let mut after = state.clone();
        let draw = |rng: &mut fastrand::Rng| {
            (rng.usize(..6), rng.u8(..), [30, 300, 5000, 70_000][rng.usize(..4)])
        };
        let plan = match rng.usize(..12) {
            0 => Plan::Reclaim(rng.usize(..SHARDS)),
            1 => Plan::Defragment(rng.usize(..SHARDS)),
            2 => {
                after.clear();
                Plan::Flush
            }
            3 => {
                let (n, byte, len) = draw(rng);
                after.clear();
                after.insert(name(n), code(byte, len));
                Plan::Restore(n, byte, len)
            }
            4 | 5 => {
                let n = rng.usize(..6);
                after.remove(&name(n));
                Plan::Delete(n)
            }
            _ => {
                let all: Vec<_> = (0..1 + rng.usize(..3)).map(|_| draw(rng)).collect();
                for &(n, byte, len) in &all {
                    after.insert(name(n), code(byte, len));
                }
                Plan::Put(all)
            }
        };
        (plan, after)
    }

    fn close(&self, ks: &mut Keyspace) -> Result<(), String> {
        ks.heap().close().map_err(|error| error.to_string())
    }

    fn run(&self, ks: &mut Keyspace, plan: &Plan) -> Result<bool, String> {
        let mut txn = match plan {
            Plan::Reclaim(shard) => {
                ks.reclaim_step(*shard, 2).map_err(|error| error.to_string())?;
                return Ok(true);
            }
            Plan::Defragment(shard) => {
                let mut from = Some(Defragmentation::default());
                while let Some(at) = from {
                    from = ks.defragment_step(*shard, at, 8).map_err(|error| error.to_string())?;
                }
                return Ok(true);
            }
            _ => ks.begin_all(NOW),
        };
        let done = match plan {
            Plan::Put(all) => all
                .iter()
                .try_for_each(|&(n, byte, len)| txn.libraries().put(&name(n), &code(byte, len))),
            Plan::Delete(n) => txn.libraries().delete(&name(*n)).map(drop),
            Plan::Restore(n, byte, len) => txn
                .libraries()
                .flush()
                .and_then(|_| txn.libraries().put(&name(*n), &code(*byte, *len))),
            _ => txn.libraries().flush().map(drop),
        };
        Ok(done.is_ok() && txn.commit().is_ok())
    }
}

fn check(crash: Crash, seed: u64) {
    let effort = Effort { transactions: 30, images: 6, ..Effort::new(crash, seed) };
    match explore(&Subjected, effort) {
        Ok(counts) => {
            println!("{crash:?} {seed}: {counts:?}");
            assert!(counts.images > 200 && counts.refused < counts.crashes / 4, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_crash_leaves_whole_changes_of_libraries_in_the_strict_model() {
    check(Crash::Strict, 1);
}

#[test]
fn a_crash_leaves_whole_changes_of_libraries_in_the_x86_model() {
    check(Crash::X86, 2);
}

#[test]
fn each_change_of_libraries_costs_one_fence() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let cost = |work: &dyn Fn(&mut keyspace::Txn<'_>)| {
        let run = |_| {
            let mut txn = ks.begin_all(NOW);
            txn.libraries().put(b"old", &code(1, 200)).expect("free memory");
            txn.commit().expect("a commit");
            let before = pmem::counters();
            work(&mut txn);
            txn.commit().expect("a commit");
            pmem::counters().since(&before).fences
        };
        (0..10).map(run).min()
    };
    for len in [100, 5000, 1_000_000] {
        assert_eq!(
            cost(&|txn| txn.libraries().put(b"old", &code(2, len)).expect("free memory")),
            Some(1)
        );
    }
    assert_eq!(cost(&|txn| assert!(txn.libraries().delete(b"old").expect("free memory"))), Some(1));
    assert_eq!(cost(&|txn| assert!(txn.libraries().flush().expect("free memory") > 0)), Some(1));
    let three = cost(&|txn| {
        txn.libraries().flush().expect("free memory");
        (0..3).for_each(|n| txn.libraries().put(&name(n), &code(3, 100)).expect("free memory"));
    });
    assert_eq!(three, Some(1));
}

#[test]
fn libraries_are_no_keys_and_outlive_a_flush_of_all_databases() {
    let ks = volatile(SHARDS, 64 << 20);
    set(&ks, "key", "value");
    put(&ks, "key", b"#!lua name=key\n");
    let mut txn = ks.begin_all(NOW);
    for number in 0..16 {
        txn.databases().flush(db(number)).expect("free memory");
    }
    txn.commit().expect("a commit");
    assert_eq!(txn.database(db(0)).count(), 0);
    drop(txn);
    assert_eq!(libraries(&ks), State::from([(b"key".to_vec(), b"#!lua name=key\n".to_vec())]));
}

#[test]
fn a_full_heap_refuses_a_library_and_keeps_the_old_one() {
    let ks = volatile(1, 8 << 20);
    put(&ks, "kept", &code(1, 1000));
    let mut txn = ks.begin_all(NOW);
    assert!(txn.libraries().put(b"kept", &code(2, 64 << 20)).is_err());
    assert!(txn.libraries().put(b"new", &code(2, 64 << 20)).is_err());
    drop(txn);
    assert_eq!(libraries(&ks), State::from([(b"kept".to_vec(), code(1, 1000))]));
    ks.check().expect("a sound heap");
}

#[test]
fn thousands_of_libraries_are_found_again_deleted_and_freed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, SHARDS);
    let mut txn = ks.begin_all(NOW);
    let expected: State = (0..10_000).map(|n| (name(n), code(n as u8, 40 + n % 200))).collect();
    for (name, code) in &expected {
        txn.libraries().put(name, code).expect("free memory");
    }
    txn.libraries().put(b"long", &code(9, 5 << 20)).expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    ks.heap().close().expect("a clean close");
    drop(ks);
    let ks = emulated(&path, SHARDS);
    assert_eq!(ks.check().expect("a sound pool").libraries, 10_001);
    let mut txn = ks.begin_all(NOW);
    assert!(txn.libraries().delete(b"long").expect("free memory"));
    txn.commit().expect("a commit");
    drop(txn);
    assert_eq!(libraries(&ks), expected);
    let mut txn = ks.begin_all(NOW);
    assert_eq!(txn.libraries().flush().expect("free memory"), 10_000);
    txn.commit().expect("a commit");
    drop(txn);
    for shard in 0..SHARDS {
        while ks.reclaim_step(shard, 1000).expect("a step").more {}
    }
    let checked = ks.check().expect("a sound pool");
    assert_eq!((checked.libraries, checked.blocks), (0, 0));
}

/// Flips a bit at the only occurrence of this code, and returns what a check finds.
fn flipped(path: &std::path::Path, text: &[u8]) -> Vec<CheckError> {
    let mut bytes = fs::read(path).expect("the pool");
    let found: Vec<usize> = memchr::memmem::find_iter(&bytes, text).collect();
    let [at] = found[..] else { panic!("the code is at {found:x?}") };
    bytes[at] ^= 4;
    fs::write(path, bytes).expect("the pool");
    let ks = emulated(path, 1);
    let mut problems = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| problems.push(problem));
    problems
}

#[test]
fn a_damaged_library_is_named_by_check_found_by_the_scrub_and_cut_out_by_repair() {
    for len in [300, 9000, 90_000] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pool");
        let ks = emulated(&path, 1);
        let mut broken = code(1, len);
        broken.extend_from_slice(b"the broken place");
        put(&ks, "broken", &broken);
        put(&ks, "sound", &code(2, len));
        ks.heap().close().expect("a clean close");
        drop(ks);
        let problems = flipped(&path, b"the broken place");
        // The references of a damaged long value are not followed, so its blocks count as lost.
        let CheckError::Key(key) = &problems[0] else { panic!("{problems:?}") };
        let is_lost = |problem: &CheckError| matches!(problem, CheckError::Lost { .. });
        assert!(problems[1..].iter().all(is_lost), "{problems:?}");
        let text = key.to_string();
        assert!(text.starts_with("function libraries, key \"broken\": damaged"), "{text}");
        let ks = emulated(&path, 1);
        let (mut scrub, mut goes_on) = (Scrub::default(), true);
        while goes_on {
            (scrub, goes_on) = ks.scrub_step(0, scrub).expect("a step");
        }
        assert_eq!(scrub.found, 1);
        let found = ks.begin_all(NOW).library(b"broken");
        assert!(found.is_err(), "{found:?}");
        ks.repair(&problems).expect("a repair");
        assert_eq!(libraries(&ks), State::from([(b"sound".to_vec(), code(2, len))]));
        ks.check().expect("a sound pool");
    }
}

#[test]
fn a_salvage_takes_libraries_along_and_names_one_that_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, 1);
    set(&ks, "broken", "a key of the same name");
    put(&ks, "broken", b"#!lua name=broken\nthe broken place");
    put(&ks, "short", b"#!lua name=short\n");
    put(&ks, "long", &code(7, 90_000));
    ks.heap().close().expect("a clean close");
    drop(ks);
    flipped(&path, b"the broken place");
    let pool = Salvage::open(Region::inspect(&path).expect("a mapping"), [0; 16]).expect("a pool");
    let to = volatile(SHARDS, 64 << 20);
    let mut findings = Vec::new();
    let done = to
        .take_from(&pool, SalvageOptions { now: NOW, unplaced: None }, &|_| {}, &mut |finding| {
            findings.push(finding.to_string());
        })
        .expect("free memory");
    assert_eq!((done.keys, done.libraries, done.lost), (1, 2, 1));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert!(finding.starts_with("lost: function libraries, key \"broken\""), "{finding}");
    let expected = [("long", code(7, 90_000)), ("short", b"#!lua name=short\n".to_vec())];
    assert_eq!(libraries(&to), expected.map(|(name, code)| (name.into(), code)).into());
}

#[test]
fn a_snapshot_shows_the_libraries_of_its_moment() {
    let ks = volatile(SHARDS, 64 << 20);
    put(&ks, "one", &code(1, 100));
    put(&ks, "two", &code(2, 90_000));
    let (snapshot, ()) = ks.snapshot(|| ()).expect("a snapshot");
    put(&ks, "two", &code(3, 50));
    put(&ks, "three", &code(3, 50));
    let mut txn = ks.begin_all(NOW);
    txn.libraries().delete(b"one").expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    let mut shown = Vec::new();
    let done: Result<(), SnapshotLost> = snapshot.for_each_library(|code| {
        shown.push(code.to_vec());
        Ok(())
    });
    assert_eq!(done, Ok(()));
    shown.sort();
    assert_eq!(shown, [code(1, 100), code(2, 90_000)]);
}

#[test]
fn a_salvage_finds_libraries_to_which_no_index_leads() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, 1);
    set(&ks, "key", "value");
    put(&ks, "one", &code(1, 100));
    put(&ks, "two", &code(2, 90_000));
    let before = libraries(&ks);
    let root = ks.heap().lock(0).root(66).raw() as usize;
    ks.heap().close().expect("a clean close");
    drop(ks);
    let mut bytes = fs::read(&path).expect("the pool");
    bytes[root..root + 8].fill(0);
    fs::write(&path, bytes).expect("the pool");
    let pool = Salvage::open(Region::inspect(&path).expect("a mapping"), [0; 16]).expect("a pool");
    let to = volatile(SHARDS, 64 << 20);
    let options = SalvageOptions { now: NOW, unplaced: None };
    let done = to.take_from(&pool, options, &|_| {}, &mut |_| {}).expect("free memory");
    assert_eq!((done.keys, done.libraries, done.lost), (1, 2, 0));
    assert_eq!(libraries(&to), before);
}
