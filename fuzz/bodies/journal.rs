//! Opening a pool with a damaged journal is refused by a named error, and then neither file
//! changes; or it gives a heap in the state of a prefix of the journal, which commits, closes and
//! opens again. Never a panic, never an endless loop, never a byte outside of the pool.
//!
//! There are two small pools: one that was killed and names its journal, and one that was closed
//! and names none. The input's first byte chooses: 0 and 1 begin the bytes of the journal's file
//! itself, with the one pool or the other; any other begins a series of changes to the journal that
//! the pool had: a kind, a place of three bytes, a length, bytes. Since checksums would stop nearly
//! every change at the door, there are kinds that make the checksum right again.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use heap::{CreateOptions, Geometry, Heap, OpenError, View};
use pmem::{DomainRequest, JournalError, MapOptions, Region};
use tempfile::TempDir;

const GEOMETRY: Geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 1024, zone_spans: 8 };
const BOOT: [u8; 16] = [1; 16];
const UUID: [u8; 16] = [2; 16];
const RING: usize = 64 << 10;
const BLOCK: usize = 4096;
const LINE: usize = 64;
const SUPERBLOCK_LEN: usize = 128;
/// The transaction that was applied to the pool's file when it was killed, and the last one.
const APPLIED: u64 = 3;
const LAST: u64 = 9;

/// The files of a pool, as they were left.
#[derive(Clone)]
struct Files {
    pool: Vec<u8>,
    journal: Vec<u8>,
}

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let (killed, closed) = bases();
    let (mut files, oldest) =
        if kind % 2 == 0 { (killed.clone(), APPLIED) } else { (closed.clone(), LAST) };
    let mut is_forged = kind < 2;
    match kind {
        0 | 1 => files.journal = rest.to_vec(),
        _ => is_forged |= change(&mut files.journal, rest),
    }
    let folder = Folder::with(&files);
    let heap = match folder.open() {
        Ok(heap) => heap,
        Err(error) => return folder.is_as_it_was(&files, &error),
    };
    let found = state(&heap);
    // What has its checksum was written by somebody: only then it may say anything.
    assert!(is_forged || (oldest..=LAST).contains(&found), "state {found} of no moment");
    drop(heap);
    let Some(heap) = folder.again(is_forged) else { return };
    assert!(is_forged || state(&heap) == found, "the state changed in a crash");
    let was_sound = heap.allocated().is_ok();
    let commits = (1..=3).all(|n| put(&heap, found.wrapping_add(n)));
    assert!(!was_sound || heap.allocated().is_ok(), "commits damaged a sound pool");
    let last = state(&heap);
    if heap.close().is_ok() {
        drop(heap);
        let Some(heap) = folder.again(is_forged) else { return };
        assert!(state(&heap) == last && (!commits || last == found.wrapping_add(3)));
    }
}

/// A folder with the two files.
struct Folder {
    folder: TempDir,
}

impl Folder {
    fn with(files: &Files) -> Folder {
        let memory = TempDir::new_in("/dev/shm");
        let folder = memory.or_else(|_| TempDir::new()).expect("a scratch folder");
        let made = Folder { folder };
        fs::write(made.pool(), &files.pool).expect("a scratch file can be written");
        fs::write(made.journal(), &files.journal).expect("a scratch file can be written");
        made
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("pool.journal")
    }

    fn files(&self) -> Files {
        let read = |path| fs::read(path).expect("a scratch file");
        Files { pool: read(self.pool()), journal: read(self.journal()) }
    }

    fn open(&self) -> Result<Heap, OpenError> {
        Ok(Heap::open(self.region(), BOOT)?.0)
    }

    /// Opens what was opened before. Only a counter that somebody forged comes to its end.
    fn again(&self, is_forged: bool) -> Option<Heap> {
        match self.open() {
            Err(OpenError::Journal(JournalError::Superblock)) if is_forged => None,
            opened => Some(opened.expect("what was opened before opens again")),
        }
    }

    fn region(&self) -> Region {
        let domain = DomainRequest::Journal;
        let options = MapOptions { domain, journal_size: RING as u64, ..MapOptions::new(4 << 20) };
        Region::open(self.pool(), &options).expect("a file can be mapped")
    }

    /// Verifies that a refusal changed nothing. A journal that was accepted, and whose lines make
    /// no sound pool, counts its incarnation.
    fn is_as_it_was(&self, files: &Files, error: &OpenError) {
        assert!(!error.to_string().is_empty());
        let found = self.files();
        assert!(found.pool == files.pool, "the pool changed: {error}");
        let from = match error {
            OpenError::Journal(_) => 0,
            _ => (2 * BLOCK).min(files.journal.len()),
        };
        let is_same = found.journal.get(from..) == files.journal.get(from..);
        assert!(is_same && found.journal.len() == files.journal.len(), "it changed: {error}");
    }
}

/// Commits transaction `n`: both shards have its number, and a block with it.
fn put(heap: &Heap, n: u64) -> bool {
    let mut both = [heap.lock(0), heap.lock(1)];
    for tx in &mut both {
        let (number, block) = (tx.root(0), tx.root(1));
        let Ok(fresh) = tx.reserve(200) else { return false };
        tx.write(&fresh, 0, &n.to_le_bytes());
        let fresh = tx.publish(fresh, 8).raw();
        tx.set(number, n);
        tx.set(block, fresh);
    }
    heap.commit_all(&mut both).is_ok()
}

/// Returns the number that both shards have; none that any transaction has, if they differ.
fn state(heap: &Heap) -> u64 {
    let [a, b] = [0, 1].map(|shard| {
        let tx = heap.lock(shard);
        tx.word(tx.root(0))
    });
    if a == b { a } else { u64::MAX }
}

/// Makes the changes of the input; true if a checksum was made right again.
fn change(journal: &mut Vec<u8>, mut data: &[u8]) -> bool {
    let mut is_forged = false;
    while let [kind, a, b, c, len, rest @ ..] = data {
        let at = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        let (bytes, following) = rest.split_at(usize::from(*len).min(rest.len()));
        match kind % 6 {
            0 => journal.truncate(at),
            1 | 2 => write(journal, at, bytes),
            3 => move_block(journal, usize::from(*a), usize::from(*b)),
            4 => is_forged |= fix_superblock_checksum(journal, at % 2 * BLOCK),
            _ => is_forged |= fix_batch_checksum(journal, at.saturating_mul(LINE)),
        }
        data = following;
    }
    is_forged
}

fn write(journal: &mut [u8], at: usize, bytes: &[u8]) {
    let fitting = journal.len().saturating_sub(at).min(bytes.len());
    if fitting > 0 {
        journal[at..at + fitting].copy_from_slice(&bytes[..fitting]);
    }
}

/// Copies a block to the place of another one.
fn move_block(journal: &mut [u8], from: usize, to: usize) {
    let (from, to) = (from * BLOCK, to * BLOCK);
    if from.max(to) + BLOCK <= journal.len() {
        journal.copy_within(from..from + BLOCK, to);
    }
}

fn fix_superblock_checksum(journal: &mut [u8], at: usize) -> bool {
    let Some(superblock) = journal.get_mut(at..at + SUPERBLOCK_LEN) else { return false };
    // Older formats' checksums do not cover the version.
    let version = if superblock[8] < 5 { &[][..] } else { &superblock[8..12] };
    let crc = crc32c::crc32c_append(crc32c::crc32c(version), &superblock[16..]);
    superblock[12..16].copy_from_slice(&crc.to_le_bytes());
    true
}

fn fix_batch_checksum(journal: &mut [u8], at: usize) -> bool {
    let Some(&[a, b, c, d]) = journal.get(at + 12..at + 16) else { return false };
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let batch = journal.get_mut(at..at.saturating_add(len));
    let Some(batch) = batch.filter(|batch| batch.len() >= 64) else { return false };
    let crc = crc32c::crc32c_append(crc32c::crc32c(&UUID), &batch[12..]);
    batch[8..12].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Returns the files of a pool that was killed with a journal of two incarnations, some of it
/// applied and some of it not synced; and those of the same pool closed.
fn bases() -> &'static (Files, Files) {
    static BASES: OnceLock<(Files, Files)> = OnceLock::new();
    BASES.get_or_init(|| {
        let folder = Folder::with(&Files { pool: Vec::new(), journal: Vec::new() });
        let sync = |heap: &Heap| {
            let region = heap.region();
            region.sync_up_to(region.appended()).expect("a disk that does not fail");
        };
        let options =
            CreateOptions { geometry: GEOMETRY, uuid: UUID, hash_seed: [3; 16], boot_id: BOOT };
        let heap = Heap::create(folder.region(), &options).expect("a pool can be made");
        for n in 1..=6 {
            assert!(put(&heap, n));
            sync(&heap);
            if n == APPLIED {
                while heap.region().checkpoint_step().expect("a disk that does not fail") {}
            }
        }
        drop(heap);
        let heap = folder.open().expect("a killed pool opens");
        for n in 7..=LAST {
            assert!(put(&heap, n));
            let region = heap.region();
            region.write_up_to(region.appended()).expect("a disk that does not fail");
            if n == 7 {
                sync(&heap);
            }
        }
        let killed = folder.files();
        heap.close().expect("a disk that does not fail");
        drop(heap);
        let closed = folder.files();
        is_where_it_was(&killed.journal);
        (killed, closed)
    })
}

/// The checksums must change nothing in a sound journal; else the layout has moved, and this target
/// tries nothing any more.
fn is_where_it_was(journal: &[u8]) {
    let mut fixed = journal.to_vec();
    let superblocks = [0, 1].map(|copy| fix_superblock_checksum(&mut fixed, copy * BLOCK));
    let lines = (2 * BLOCK..journal.len()).step_by(LINE);
    let begins = lines.filter(|at| journal[*at..].starts_with(b"PJBATCH\0"));
    let batches = begins.filter(|at| fix_batch_checksum(&mut fixed, *at)).count();
    assert!(superblocks == [true; 2] && batches >= LAST as usize);
    assert!(fixed == journal, "the journal's layout is no longer what it was");
}
