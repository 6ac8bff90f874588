//! Records whose bodies are in spans, of which the medium loses a line without a signal.

use crate::small_pool::{
    self, BOOT, LINE, OTHER_BOOT, RING, RING_BYTES, TAIL, WORDS, create, has_number, region,
    set_entry,
};
use heap::{Heap, OpenError, Ptr, Salvage, SalvageNote, View};
use std::fs;
use std::path::PathBuf;

/// The number of the record after those of every pool here.
const NEWEST: u64 = 4;

/// A pool in which a long record is followed by a short one, as a power cut leaves it: none of the
/// words of the two has arrived.
struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    /// The first of the words that the long record sets to 1, 2 and so on; as many follow them.
    first: Ptr,
    /// The word of the short record.
    root: Ptr,
}

impl Pool {
    fn new() -> (Pool, Heap) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let heap = create(&path, 1);
        let mut shard = heap.lock(0);
        let zeros = [0; 16 * WORDS as usize];
        let block = shard.reserve(zeros.len()).expect("free memory");
        shard.write(&block, 0, &zeros);
        let first = shard.publish(block, zeros.len());
        shard.set(shard.root(0), first.raw());
        shard.commit().expect("a commit");
        (0..WORDS).for_each(|n| shard.set(first.add(8 * n), 1 + n));
        shard.commit().expect("a commit of a long record");
        let root = shard.root(1);
        shard.set(root, 7);
        shard.commit().expect("a commit");
        drop(shard);
        (Pool { path, _folder: folder, first, root }, heap)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }

    /// Returns where the body of the long record is.
    fn body(&self, bytes: &[u8]) -> usize {
        small_pool::body(bytes, self.first)
    }

    /// Returns the bytes of the pool as a power cut leaves them.
    fn after_a_power_cut(&self) -> Vec<u8> {
        let mut bytes = self.bytes();
        let words = (0..WORDS).map(|n| self.first.add(8 * n)).chain([self.root]);
        words.for_each(|at| bytes[at.raw() as usize..][..8].fill(0));
        bytes
    }

    fn salvage(&self, bytes: &[u8], boot_id: [u8; 16]) -> Salvage {
        small_pool::salvage(&self.path, bytes, boot_id)
    }
}

#[test]
fn a_long_record_that_another_one_follows_is_applied() {
    let (pool, heap) = Pool::new();
    drop(heap);
    fs::write(&pool.path, pool.after_a_power_cut()).expect("the pool");
    let heap = Heap::open(region(&pool.path), BOOT).expect("the pool opens").0;
    let shard = heap.lock(0);
    assert!((0..WORDS).all(|n| shard.word(pool.first.add(8 * n)) == 1 + n));
    assert_eq!(shard.word(pool.root), 7);
}

/// The body was verified only if its record was the newest: of another one, the part before a lost
/// line was applied, and the pool was opened without a word.
#[test]
fn each_lost_line_of_a_body_is_reported_when_another_record_follows() {
    let (pool, heap) = Pool::new();
    drop(heap);
    let bytes = pool.after_a_power_cut();
    let body = pool.body(&bytes);
    for line in (body..body + 16 * WORDS as usize).step_by(LINE) {
        let mut damaged = bytes.clone();
        damaged[line..line + LINE].fill(0);
        fs::write(&pool.path, &damaged).expect("the pool");
        let refused = Heap::open(region(&pool.path), BOOT).map(|_| ());
        assert!(
            matches!(refused, Err(OpenError::DamagedLog { shard: 0, expected: 2, found: 3 })),
            "line at {line:#x}: {refused:?}"
        );
    }
}

#[test]
fn a_salvage_names_a_record_whose_body_is_damaged_and_applies_nothing_of_it() {
    let (pool, heap) = Pool::new();
    drop(heap);
    // If only the process ended, the words are in place.
    let in_place = (BOOT, false, pool.bytes(), 1);
    for (boot_id, is_lost, mut bytes, word) in
        [in_place, (OTHER_BOOT, true, pool.after_a_power_cut(), 0)]
    {
        let body = pool.body(&bytes);
        bytes[body + 50 * LINE] ^= 1;
        let salvage = pool.salvage(&bytes, boot_id);
        let mut notes = salvage.notes().iter();
        let costs = notes.find_map(|note| match note {
            SalvageNote::Log { costs, .. } => Some(*costs),
            _ => None,
        });
        assert_eq!(costs, Some(is_lost), "{:?}", salvage.notes());
        let [first, root] = [pool.first, pool.root].map(|at| salvage.region().load(at.raw()));
        assert_eq!((first, root), (word, 7));
    }
}

/// A salvage that does not know where the log begins reads retired records too. The space of their
/// bodies may have been used since, here by a record that did not arrive.
#[test]
fn a_salvage_applies_no_body_that_was_written_over() {
    let (pool, heap) = Pool::new();
    let body = pool.body(&pool.bytes());
    assert!(heap.retire_logs());
    let newest = pool.first.add(8 * WORDS);
    let mut shard = heap.lock(0);
    (0..WORDS).for_each(|n| shard.set(newest.add(8 * n), 1 + n));
    shard.commit().expect("a commit of a long record");
    drop(shard);
    drop(heap);
    let mut bytes = pool.bytes();
    assert!(bytes[body..].starts_with(&set_entry(newest, 1)), "the span is used again");
    bytes[TAIL..TAIL + 8].fill(0);
    bytes[newest.raw() as usize..][..8 * WORDS as usize].fill(0);
    let mut lines = (RING..RING + RING_BYTES).step_by(LINE);
    let record = lines.find(|line| has_number(&bytes[*line..], NEWEST)).expect("the record");
    bytes[record..record + LINE].fill(0);
    for boot_id in [BOOT, OTHER_BOOT] {
        let salvage = pool.salvage(&bytes, boot_id);
        let word = |n: u64| salvage.region().load(newest.add(8 * n).raw());
        assert!((0..WORDS).all(|n| word(n) == 0), "words of a record that is not there");
    }
}
