//! The newest record of a log, which may not have been fenced, and of which the medium loses
//! something: what opening the pool says, and what a salvage makes of it.

use crate::small_pool::{
    self, BOOT, LINE, OTHER_BOOT, SPAN, TAIL, WORDS, create, has_number, region, salvage,
    used_lines,
};
use heap::{Heap, OpenError, Ptr, Salvage, SalvageNote, View};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The first zone of a pool of two shards.
const ZONES: usize = SPAN;
/// The place of the hint that says which record is known to be fenced.
const FENCED: usize = TAIL + LINE;
/// What the area of a shard takes.
const AREA: usize = 2048;
const PAGE: usize = 4096;

/// A pool in use, and the place of a copy of it.
struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    copy: PathBuf,
    heap: Heap,
}

impl Pool {
    fn new() -> Pool {
        Pool::of(1)
    }

    fn of(shards: usize) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let heap = create(&path, shards);
        Pool { path, copy: folder.path().join("copy"), _folder: folder, heap }
    }

    /// Publishes a block with these bytes in a root, and sets the next root to 7.
    fn put(&self, root: usize, bytes: &[u8]) -> Ptr {
        let mut shard = self.heap.lock(0);
        let fresh = shard.reserve(bytes.len()).expect("free memory");
        shard.write(&fresh, 0, bytes);
        let block = shard.publish(fresh, bytes.len());
        shard.set(shard.root(root), block.raw());
        shard.set(shard.root(root + 1), 7);
        shard.commit().expect("a commit");
        block
    }

    fn root(&self, root: usize) -> usize {
        self.heap.lock(0).root(root).raw() as usize
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }
}

/// Opens a pool with these bytes, of which the medium says that it lost the page at `page`.
fn open_without(path: &Path, bytes: &[u8], page: usize) -> Result<(), OpenError> {
    fs::write(path, bytes).expect("the pool");
    let region = region(path);
    let file = OpenOptions::new().write(true).open(path).expect("the pool");
    file.set_len(page as u64).expect("a shorter file");
    region.load(page as u64);
    file.write_all_at(&bytes[page..], page as u64).expect("the rest of the pool");
    assert!(region.has_unresolved_losses());
    Heap::open(region, BOOT).map(|_| ())
}

fn costs(salvage: &Salvage) -> bool {
    let is_log = |note: &&SalvageNote| matches!(note, SalvageNote::Log { .. });
    salvage.notes().iter().filter(is_log).any(SalvageNote::costs)
}

/// The record was taken for one that had not been fenced: an acknowledged write was missing, and
/// nothing said so.
#[test]
fn a_newest_record_of_which_the_medium_lost_something_is_reported() {
    let pool = Pool::new();
    let block = pool.put(0, &[b'v'; 100]).raw() as usize;
    let mut bytes = pool.bytes();
    bytes[FENCED..FENCED + 8].fill(0);
    let refused = open_without(&pool.copy, &bytes, block / PAGE * PAGE);
    assert!(matches!(refused, Err(OpenError::LostLog { shard: 0, .. })), "{refused:?}");

    let pool = Pool::new();
    let first = pool.put(0, &[0; 8 * WORDS as usize]);
    let mut shard = pool.heap.lock(0);
    (0..WORDS).for_each(|n| shard.set(first.add(8 * n), 1 + n));
    shard.commit().expect("a commit of a long record");
    drop(shard);
    let mut bytes = pool.bytes();
    bytes[FENCED..FENCED + 8].fill(0);
    let body = small_pool::body(&bytes, first);
    let refused = open_without(&pool.copy, &bytes, body);
    assert!(matches!(refused, Err(OpenError::LostLog { shard: 0, .. })), "{refused:?}");
}

/// A crash before the fence leaves that too: nothing was acknowledged.
#[test]
fn a_newest_record_whose_bytes_did_not_arrive_is_dropped() {
    let pool = Pool::new();
    let block = pool.put(0, &[b'v'; 100]).raw() as usize;
    let mut bytes = pool.bytes();
    bytes[FENCED..FENCED + 8].fill(0);
    bytes[block..block + 100].fill(0);
    bytes[pool.root(0)..pool.root(2)].fill(0);
    fs::write(&pool.copy, &bytes).expect("the pool");
    let heap = Heap::open(region(&pool.copy), BOOT).expect("the pool opens").0;
    let shard = heap.lock(0);
    assert_eq!(shard.word(shard.root(1)), 0);
}

/// The newest record that is left was verified as if it were the newest: what it had published was
/// written over for one that is lost, and so nothing of it was applied.
#[test]
fn a_salvage_applies_a_record_that_is_known_to_be_fenced() {
    let pool = Pool::new();
    let block = pool.put(0, &[b'v'; 100]).raw() as usize;
    let newest = *used_lines(&pool.bytes(), 0).last().expect("a record");
    pool.put(2, b"what the medium loses");
    let (first, end) = (pool.root(0), pool.root(4));
    let mut bytes = pool.bytes();
    let lost = used_lines(&bytes, 0).into_iter().filter(|line| *line > newest);
    lost.for_each(|line| bytes[line..line + LINE].fill(0));
    bytes[block] ^= 1;
    bytes[first..end].fill(0);
    let salvage = salvage(&pool.copy, &bytes, OTHER_BOOT);
    assert_eq!(salvage.word(salvage.root(0, 1)), 7);
    assert!(costs(&salvage), "{:?}", salvage.notes());
}

/// A log without its tail has records that were retired. The span of the block that they changed
/// may be another shard's since.
#[test]
fn a_salvage_stores_no_word_in_a_span_that_another_shard_has() {
    let pool = Pool::of(2);
    let block = pool.put(0, &[b'v'; 100]).raw() as usize;
    let mut shard = pool.heap.lock(0);
    let word = Ptr::from_raw(block as u64).add(8);
    shard.set(word, 1);
    shard.commit().expect("a commit");
    drop(shard);
    pool.put(2, b"what the medium loses");
    let mut bytes = pool.bytes();
    let newest = *used_lines(&bytes, 0).last().expect("a record");
    bytes[newest..newest + LINE].fill(0);
    bytes[TAIL..TAIL + 8].fill(0);
    for is_anothers in [false, true] {
        let mut bytes = bytes.clone();
        let span = block / SPAN * SPAN;
        // A new pool has one zone, which begins with its span table.
        let zone = ZONES;
        let entry = zone + (span - zone) / SPAN * 8;
        assert_eq!(bytes[entry + 1], 0, "it is the first shard's");
        if is_anothers {
            bytes[entry + 1] = 1;
        }
        let in_table = bytes[entry..entry + 8].to_vec();
        bytes[block + 8..block + 16].copy_from_slice(&9u64.to_le_bytes());
        let salvage = salvage(&pool.copy, &bytes, OTHER_BOOT);
        assert_eq!(salvage.word(word), if is_anothers { 9 } else { 1 });
        let found = salvage.word(Ptr::from_raw(entry as u64)).to_le_bytes();
        assert_eq!(found[..], in_table);
    }
}

/// A pool of two shards in which a span went from one to the other: that one's log alone says so,
/// and says what is in `word`. The tail of the former owner is lost.
struct WentOver {
    pool: Pool,
    bytes: Vec<u8>,
    word: Ptr,
    /// The place of the span's word in the table, and what it was before the release.
    span_at: usize,
    before: [u8; 8],
}

fn a_span_that_went_over(former: usize) -> WentOver {
    let pool = Pool::of(2);
    let other = 1 - former;
    let put = |shard: usize| {
        let mut shard = pool.heap.lock(shard);
        let fresh = shard.reserve(100).expect("free memory");
        shard.write(&fresh, 0, &[b'v'; 100]);
        let block = shard.publish(fresh, 100);
        shard.set(shard.root(0), block.raw());
        shard.commit().expect("a commit");
        block
    };
    let set = |shard: usize, at: Option<Ptr>| {
        let mut shard = pool.heap.lock(shard);
        shard.set(at.unwrap_or(shard.root(1)), 1);
        shard.commit().expect("a commit");
    };
    let block = put(former);
    let span_at = ZONES + (block.raw() as usize - ZONES) / SPAN * 8;
    let before = *pool.bytes()[span_at..].first_chunk().expect("the word");
    let word = block.add(16);
    set(former, Some(word));
    let mut shard = pool.heap.lock(former);
    shard.set(shard.root(0), 0);
    shard.free(block);
    shard.commit().expect("a commit");
    drop(shard);
    assert_eq!(pool.heap.share_free_spans_of(former), Some(1));
    assert_eq!(put(other), block);
    set(other, None);
    set(other, None);
    let mut bytes = pool.bytes();
    // What the new owner's log says of the span is not in place yet.
    bytes[span_at..][..8].fill(0);
    bytes[TAIL + AREA * former..][..8].fill(0);
    WentOver { pool, bytes, word, span_at, before }
}

/// Without its tail a log of a new pool was read from its first record on, whose words had gone to
/// another shard since.
#[test]
fn a_pool_without_the_tail_of_its_first_log_is_refused() {
    for former in [0, 1] {
        let WentOver { pool, bytes, word, .. } = a_span_that_went_over(former);
        fs::write(&pool.copy, &bytes).expect("the pool");
        let refused = Heap::open(region(&pool.copy), BOOT).err();
        assert!(matches!(refused, Some(OpenError::DamagedLog { .. })), "{refused:?}");
        let found = salvage(&pool.copy, &bytes, OTHER_BOOT).word(word);
        assert_eq!(found, u64::from_le_bytes([b'v'; 8]));
    }
}

/// The log of the shard that has the span is damaged, too: it lost a record, or its tail.
#[test]
fn a_salvage_knows_which_shard_has_a_span_before_it_stores_words() {
    for (former, loses_tail) in [(0, false), (1, false), (0, true), (1, true)] {
        let WentOver { pool, mut bytes, word, .. } = a_span_that_went_over(former);
        let used = used_lines(&bytes, 1 - former);
        let record = used[used.len() - 2];
        let (lost, len) = if loses_tail { (TAIL, 2 * AREA) } else { (record, LINE) };
        bytes[lost..lost + len].fill(0);
        let found = salvage(&pool.copy, &bytes, OTHER_BOOT).word(word);
        let what = format!("former owner {former}, both tails lost: {loses_tail}");
        assert_eq!(found, u64::from_le_bytes([b'v'; 8]), "{what}");
    }
}

/// The pages of a file without its journal are of different ages: here the table's is older than
/// the release, of which the log of the former owner tells.
#[test]
fn a_salvage_follows_a_span_whose_word_is_older_than_its_release() {
    for former in [0, 1] {
        let WentOver { pool, mut bytes, word, span_at, before } = a_span_that_went_over(former);
        let used = used_lines(&bytes, 1 - former);
        let record = used[used.len() - 2];
        bytes[record..record + LINE].fill(0);
        bytes[span_at..span_at + 8].copy_from_slice(&before);
        let found = salvage(&pool.copy, &bytes, OTHER_BOOT).word(word);
        assert_eq!(found, u64::from_le_bytes([b'v'; 8]), "former owner {former}");
    }
}

/// The newest of the retired records says that the tail is right. Without it nothing says that no
/// record followed.
#[test]
fn a_log_that_lost_its_newest_records_is_refused_whatever_the_hint_says() {
    let pool = Pool::new();
    for root in [0, 2, 4] {
        pool.put(root, b"retired");
    }
    assert!(pool.heap.retire_logs());
    let at_rest = pool.bytes();
    let newest = *used_lines(&at_rest, 0).last().expect("a record");
    pool.put(6, b"acknowledged");
    let mut bytes = pool.bytes();
    // A power cut leaves the hint as it was.
    bytes[FENCED..FENCED + 8].copy_from_slice(&at_rest[FENCED..FENCED + 8]);
    let lost = used_lines(&bytes, 0).into_iter().filter(|line| *line >= newest);
    lost.for_each(|line| bytes[line..line + LINE].fill(0));
    fs::write(&pool.copy, &bytes).expect("the pool");
    let refused = Heap::open(region(&pool.copy), BOOT).err();
    assert!(matches!(refused, Some(OpenError::DamagedLog { .. })), "{refused:?}");
}

/// The hint says whether a newer record was there. Without it the words of one may be half stored.
#[test]
fn a_salvage_without_a_hint_says_that_the_newest_record_may_be_missing() {
    let pool = Pool::new();
    for root in [0, 2, 4] {
        pool.put(root, &[b'v'; 100]);
    }
    let mut bytes = pool.bytes();
    // The second record is lost, the third one is there.
    let mut lines = used_lines(&bytes, 0).into_iter();
    let second = lines.find(|line| has_number(&bytes[*line..], 2)).expect("the record");
    bytes[second..second + LINE].fill(0);
    assert!(!costs(&salvage(&pool.copy, &bytes, BOOT)));
    bytes[FENCED..FENCED + 8].fill(0);
    assert!(costs(&salvage(&pool.copy, &bytes, BOOT)));
}
