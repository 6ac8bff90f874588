//! The lock protocol under the deterministic scheduler, without crashes: threads that share keys
//! begin transactions in every way, read pinned values after unlocking them, and find no free spans
//! but those of other shards. Each of its rules is shown to be necessary.
//!
//! What is tested: transactions take effect one after the other, whichever shards they lock; none
//! waits for another in a circle; what a pin holds stays unchanged.

use crate::alone;
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Content, Db, Expire, Keyspace, SnapshotLost, Txn};
use pmem::Region;
use sim::{Medium, run_scheduled, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const THREADS: usize = 3;
const STEPS: usize = 60;
const ACCOUNTS: usize = 16;
/// The total of all accounts.
const TOTAL: u64 = 100 * ACCOUNTS as u64;
/// The spare bytes after an amount: blocks of several classes, so that spans are taken and
/// released.
const SPACES: [usize; 5] = [30, 400, 1500, 4000, 15_000];

/// How many times the tested situations happened.
#[derive(Debug, Default)]
struct Seen {
    transfers: AtomicUsize,
    /// A lock was not waited for, since another thread held it.
    refused: AtomicUsize,
    /// Neither this shard nor one that could be asked had space.
    full: AtomicUsize,
    audits: AtomicUsize,
    /// A pinned value had been replaced when it was read.
    replaced: AtomicUsize,
    /// Snapshots that were read, and those given up because a transfer found no space.
    snapshots: AtomicUsize,
    given_up: AtomicUsize,
}

/// Accounts in several shards, between which amounts are transferred.
struct Bank {
    keyspace: Keyspace,
    concurrent: Seen,
}

fn account(n: usize) -> Vec<u8> {
    format!("account {n}").into_bytes()
}

/// Returns the amount, followed by bytes that depend on it.
fn value(amount: u64, space: usize) -> Vec<u8> {
    let mut value = amount.to_le_bytes().to_vec();
    value.resize(8 + space, amount as u8);
    value
}

fn read(txn: &mut Txn<'_>, n: usize) -> Vec<u8> {
    let name = account(n);
    let key = txn.key(&name);
    let entry = txn.find(Db::default(), &key).expect("an account");
    txn.strings().read(&entry).and_then(|value| value.to_vec()).expect("a string")
}

fn amount(txn: &mut Txn<'_>, n: usize) -> u64 {
    let value = read(txn, n);
    u64::from_le_bytes(value[..8].try_into().expect("an amount"))
}

/// Returns false if there is no space.
fn set(txn: &mut Txn<'_>, n: usize, amount: u64, space: usize) -> bool {
    let name = account(n);
    let key = txn.key(&name);
    txn.strings().set(Db::default(), &key, &value(amount, space), Expire::Clear).is_ok()
}

impl Bank {
    fn new(seed: u64) -> Bank {
        let geometry = Geometry { shards: 4, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
        let reserve = 65536 * 16 * (2 + seed as usize % 2) - 1;
        let region = Region::simulated_growing(reserve, Medium::new());
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        let keyspace = Keyspace::new(Heap::create(region, &options).expect("a heap"), 0);
        let mut txn = keyspace.begin_all(0);
        assert!((0..ACCOUNTS).all(|n| set(&mut txn, n, TOTAL / ACCOUNTS as u64, 0)), "no space");
        txn.commit().expect("a commit");
        drop(txn);
        Bank { keyspace, concurrent: Seen::default() }
    }

    fn shard(&self, n: usize) -> usize {
        self.keyspace.key(&account(n)).shard()
    }

    /// Takes one step of a thread.
    fn step(&self, rng: &mut fastrand::Rng) {
        let (from, to) = (rng.usize(..ACCOUNTS), rng.usize(..ACCOUNTS));
        match rng.usize(..11) {
            0 => self.audit(),
            10 => self.read_snapshot(),
            1 | 2 => self.read_pinned(from, rng),
            how if from != to => {
                let shards = [self.shard(from), self.shard(to)];
                let tried = match how {
                    3..5 => self.keyspace.try_begin(shards.into_iter(), 0),
                    _ => Some(self.keyspace.begin(&shards, 0)),
                };
                match tried {
                    Some(txn) => self.transfer(txn, (from, to), rng),
                    None => drop(self.concurrent.refused.fetch_add(1, Relaxed)),
                }
            }
            _ => {}
        }
    }

    fn transfer(&self, mut txn: Txn<'_>, (from, to): (usize, usize), rng: &mut fastrand::Rng) {
        let (has, had) = (amount(&mut txn, from), amount(&mut txn, to));
        yield_now();
        let sum = rng.u64(..=has);
        let space = |rng: &mut fastrand::Rng| SPACES[rng.usize(..SPACES.len())];
        let staged = set(&mut txn, from, has - sum, space(rng))
            && set(&mut txn, to, had + sum, space(rng))
            && txn.commit().is_ok();
        let count = if staged { &self.concurrent.transfers } else { &self.concurrent.full };
        count.fetch_add(1, Relaxed);
    }

    fn audit(&self) {
        let mut txn = self.keyspace.begin_all(0);
        let sum: u64 = (0..ACCOUNTS).map(|n| amount(&mut txn, n)).sum();
        assert_eq!(sum, TOTAL, "an audit saw a part of a transfer");
        self.concurrent.audits.fetch_add(1, Relaxed);
    }

    /// Reads all accounts in a snapshot, one shard after the other: they must be those of the cut.
    fn read_snapshot(&self) {
        let Ok((snapshot, ())) = self.keyspace.snapshot(|| ()) else { return };
        let (mut items, mut sum, mut accounts) = (Vec::new(), 0, 0);
        let mut walk = snapshot.walk();
        loop {
            match walk.next(&mut items) {
                Ok(true) => {}
                Ok(false) => break,
                Err(SnapshotLost::Released) => panic!("a snapshot released a shard too early"),
                Err(_) => {
                    self.concurrent.given_up.fetch_add(1, Relaxed);
                    return;
                }
            }
            for item in items.drain(..) {
                let found = match item.value {
                    Content::String(found) => found,
                    other => panic!("a snapshot saw {other:?} for an amount"),
                };
                let amount = found.first_chunk().copied().map_or(u64::MAX, u64::from_le_bytes);
                let expected = value(amount, found.len().saturating_sub(8));
                assert!(found == expected, "a snapshot saw other bytes");
                (sum, accounts) = (sum + amount, accounts + 1);
            }
            yield_now();
        }
        assert_eq!((sum, accounts), (TOTAL, ACCOUNTS), "a snapshot saw a part of a transfer");
        self.concurrent.snapshots.fetch_add(1, Relaxed);
    }

    /// Pins a value, unlocks it, lets others continue, and reads it.
    fn read_pinned(&self, n: usize, rng: &mut fastrand::Rng) {
        let shard = self.shard(n);
        let mut txn = self.keyspace.begin_one(shard, 0);
        let expected = read(&mut txn, n);
        let name = account(n);
        let key = txn.key(&name);
        let entry = txn.find(Db::default(), &key).expect("an account");
        let pinned = txn.strings().pin(&entry).expect("a string");
        drop(txn);
        for _ in 0..rng.usize(..40) {
            yield_now();
        }
        let mut found = Vec::new();
        pinned.append_to(&mut found);
        assert!(found == expected, "the bytes under a pin changed");
        if read(&mut self.keyspace.begin_one(shard, 0), n) != expected {
            self.concurrent.replaced.fetch_add(1, Relaxed);
        }
    }
}

/// Runs threads on shared accounts; returns what they encountered, or the error.
fn run(seed: u64) -> Result<Seen, String> {
    let bank = Bank::new(seed);
    let body = |thread| {
        let bank = &bank;
        let mut rng = fastrand::Rng::with_seed(seed << 8 | thread as u64);
        move || (0..STEPS).for_each(|_| bank.step(&mut rng))
    };
    let bodies = (0..THREADS).map(body).collect();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        run_scheduled(seed, bodies);
        bank.audit();
    }));
    match ran {
        Ok(()) => Ok(bank.concurrent),
        Err(panic) => Err(match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => (*panic.downcast::<&str>().expect("a panic in words")).to_owned(),
        }),
    }
}

#[test]
fn threads_that_share_keys_take_turns_and_never_wait_in_a_circle() {
    let _alone = alone();
    let mut checksums = [0; 7];
    for seed in 0..40 {
        let Seen { transfers, refused, full, audits, replaced, snapshots, given_up } =
            run(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        let counts = [transfers, refused, full, audits, replaced, snapshots, given_up];
        let counts = counts.map(AtomicUsize::into_inner);
        checksums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("transfers, refused, full, audits, replaced, snapshots, given up: {checksums:?}");
    let [transfers, refused, full, audits, replaced, snapshots, given_up] = checksums;
    assert!(transfers > 2000 && refused > 40 && full > 40, "{checksums:?}");
    assert!(audits > 400 && replaced > 60, "{checksums:?}");
    assert!(snapshots > 300 && given_up > 100, "{checksums:?}");
}

#[test]
fn each_rule_of_the_locks_is_needed() {
    let _alone = alone();
    const DEADLOCK: &[&str] = &["a deadlock"];
    // What a pin or a snapshot holds; if it is reused, either may notice first.
    const OTHERS: &[&str] = &["the bytes under a pin changed", "a snapshot saw"];
    for (number, says) in [
        (keyspace::FaultPoint::LockAscending.number(), DEADLOCK),
        (heap::FaultPoint::TryOthers.number(), DEADLOCK),
        (heap::FaultPoint::ReuseAfterPins.number(), OTHERS),
        (heap::FaultPoint::ReturnAfterPins.number(), OTHERS),
        (heap::FaultPoint::SaveOverlay.number(), OTHERS),
        (heap::FaultPoint::SaveEachWord.number(), OTHERS),
        (heap::FaultPoint::SaveFirstValue.number(), OTHERS),
        (heap::FaultPoint::SaveInEach.number(), OTHERS),
        (heap::FaultPoint::ReadOwnCut.number(), OTHERS),
        (heap::FaultPoint::RefuseReleased.number(), OTHERS),
    ] {
        pmem::disable_fault_point(number);
        let caught = (0..40).find_map(|seed| Some((seed, run(seed).err()?)));
        pmem::disable_fault_point(0);
        let (seed, what) = caught.unwrap_or_else(|| panic!("{number} is caught by no schedule"));
        assert!(says.iter().any(|says| what.contains(says)), "{number}: {what}");
        println!("{number} is caught by seed {seed}: {what}");
    }
}
