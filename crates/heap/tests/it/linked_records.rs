//! Records of a transaction of two shards, of which the medium loses one without a signal, while
//! the other shard has continued.

use heap::{CreateOptions, Geometry, Heap, OpenError};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs;
use std::path::Path;

const BOOT: [u8; 16] = [1; 16];
/// The places at which the shards say which record is known to be fenced.
const FENCED: [usize; 2] = [12288 + LINE, 12288 + 2048 + LINE];
const RING: usize = 16384;
const RING_BYTES: usize = 4 * 4096;
const LINE: usize = 64;

fn region(path: &Path) -> Region {
    let domain = DomainRequest::Clwb;
    let map = MapOptions { domain, emulate: true, ..MapOptions::new(8 << 20) };
    Region::open(path, &map).expect("a region")
}

/// Opens a pool in which shard 0 has a record that is linked to one of shard 1, after `damage` was
/// done to its bytes, of which it is told the place of the block that was published, and that of
/// the record. It is not known which record was fenced last. `continues`: shard 1 has committed
/// once more.
fn open(continues: bool, damage: impl FnOnce(&mut [u8], usize, usize)) -> Result<(), OpenError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let geometry = Geometry { shards: 2, ring_parts: 4, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, boot_id: BOOT, ..CreateOptions::default() };
    let heap = Heap::create(region(&path), &options).expect("a pool");
    let mut shards = [heap.lock(0), heap.lock(1)];
    let text = b"a text of the first shard";
    let fresh = shards[0].reserve(text.len()).expect("free memory");
    shards[0].write(&fresh, 0, text);
    let block = shards[0].publish(fresh, text.len());
    let roots = shards.each_ref().map(|shard| shard.root(0));
    shards[0].set(roots[0], block.raw());
    shards[1].set(roots[1], 1);
    heap.commit_all(&mut shards).expect("a commit");
    if continues {
        shards[1].set(roots[1], 2);
        shards[1].commit().expect("a commit");
    }
    drop(shards);
    drop(heap);
    let mut bytes = fs::read(&path).expect("the pool");
    FENCED.into_iter().for_each(|at| bytes[at..][..LINE].fill(0));
    let starts = |at: &usize| bytes[*at..][..LINE].iter().any(|byte| *byte != 0);
    let record = (RING..RING + RING_BYTES).step_by(LINE).find(starts).expect("a record");
    damage(&mut bytes, block.raw() as usize, record);
    fs::write(&path, &bytes).expect("the pool");
    Heap::open(region(&path), BOOT).map(|_| ())
}

fn is_damaged(result: &Result<(), OpenError>) -> bool {
    matches!(result, Err(OpenError::DamagedLog { shard: 0, .. }))
}

#[test]
fn a_transaction_whose_other_shard_has_continued_is_applied() {
    for continues in [false, true] {
        open(continues, |_, _, _| {}).expect("the pool opens");
    }
}

#[test]
fn a_lost_block_is_reported_if_the_other_shard_has_continued() {
    let result = open(true, |bytes, block, _| bytes[block] ^= 1);
    assert!(is_damaged(&result), "{result:?}");
    // Else its fence may not have completed: the transaction is dropped.
    open(false, |bytes, block, _| bytes[block] ^= 1).expect("the pool opens");
}

#[test]
fn a_lost_record_is_reported_if_the_other_shard_has_continued() {
    let lose = |bytes: &mut [u8], _, record: usize| bytes[record..][..LINE].fill(0);
    let result = open(true, lose);
    assert!(is_damaged(&result), "{result:?}");
    open(false, lose).expect("the pool opens");
}
