//! The place of the data in a stream for replicas, which a clean end leaves for the next start.
//!
//! It is true for exactly the data with which it was written. So it is written last, when nothing
//! can change any more, and the next opening takes it out before anything can change, whoever opens
//! the pool. It also has the pool's epoch, which every opening raises: a position of any epoch but
//! the last is not believed, even if a crash came before it was taken out, or a program opened the
//! pool that does not know it.
//!
//! It takes root words of shard 0, all of which change in one transaction:
//!
//! ```text
//! 100       0 for none; else 1 | 2 if there is a second history | database + 1 (0: none selected)
//!           in bits 8..16 | epoch in bits 32..64
//! 101       offset
//! 102..105  ID of the history: 20 bytes, zeros
//! 105..108  ID of the second history
//! 108       offset up to which that is the same
//! 109       crc32c of the words before
//! ```

use heap::CommitError;

use crate::Txn;
use crate::layout::{LIBRARIES, POSITION_ROOT, fields_root};
use crate::shared::Shared;

/// Words of a position.
const WORDS: usize = 10;
const _: () = assert!(POSITION_ROOT + WORDS <= fields_root(LIBRARIES));
const SUM: usize = WORDS - 1;
const IS_THERE: u64 = 1;
const HAS_SECOND: u64 = 2;

/// A place in a stream for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The ID of the history.
    pub id: [u8; 20],
    /// The offset in it.
    pub offset: u64,
    /// The database that is selected there; none if the next command selects its own.
    pub db: Option<u8>,
    /// The history that it continues, and the offset up to which both are the same.
    pub second: Option<([u8; 20], u64)>,
}

impl StreamPosition {
    fn encode(&self, epoch: u32) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let db = self.db.map_or(0, |db| u64::from(db) + 1);
        let second = if self.second.is_some() { HAS_SECOND } else { 0 };
        words[0] = IS_THERE | second | db << 8 | u64::from(epoch) << 32;
        words[1] = self.offset;
        words[2..5].copy_from_slice(&id_words(&self.id));
        if let Some((id, until)) = &self.second {
            words[5..8].copy_from_slice(&id_words(id));
            words[8] = *until;
        }
        words[SUM] = sum(&words);
        words
    }

    fn decode(words: &[u64; WORDS], epoch: u32) -> Option<StreamPosition> {
        let head = words[0];
        let is_valid =
            head & IS_THERE != 0 && words[SUM] == sum(words) && (head >> 32) as u32 == epoch;
        let second = (head & HAS_SECOND != 0).then(|| (id_of(&words[5..8]), words[8]));
        is_valid.then(|| StreamPosition {
            id: id_of(&words[2..5]),
            offset: words[1],
            db: ((head >> 8) as u8).checked_sub(1),
            second,
        })
    }
}

fn sum(words: &[u64; WORDS]) -> u64 {
    let bytes: Vec<u8> = words[..SUM].iter().flat_map(|word| word.to_le_bytes()).collect();
    heap::crc32c(&bytes).into()
}

fn id_words(id: &[u8; 20]) -> [u64; 3] {
    let mut bytes = [0; 24];
    bytes[..20].copy_from_slice(id);
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

fn id_of(words: &[u64]) -> [u8; 20] {
    let mut id = [0; 20];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    id.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    id
}

/// Takes out, at `now` (unix ms), what the last use of the pool left. Returns none if that is not
/// true for the data any more.
pub(crate) fn adopt(shared: &Shared, now: u64) -> Option<StreamPosition> {
    let words: [u64; WORDS] = std::array::from_fn(|n| shared.root_word(0, POSITION_ROOT + n));
    if words == [0; WORDS] {
        return None;
    }
    write(shared, [0; WORDS], now).ok()?;
    StreamPosition::decode(&words, shared.heap().epoch().wrapping_sub(1))
}

/// Writes, at `now` (unix ms), for the next opening the position that `position` returns while all
/// shards are locked, if it returns one. No commit is accepted after it.
pub(crate) fn leave(
    shared: &Shared,
    position: impl FnOnce() -> Option<StreamPosition>,
    now: u64,
) -> Result<Option<StreamPosition>, CommitError> {
    let heap = shared.heap();
    let mut txn = Txn::new(shared, (0..heap.shards()).map(|shard| heap.lock(shard)).collect(), now);
    let Some(position) = position() else { return Ok(None) };
    set(&mut txn, position.encode(heap.epoch()));
    txn.commit()?;
    heap.pause_held();
    Ok(Some(position))
}

fn write(shared: &Shared, words: [u64; WORDS], now: u64) -> Result<(), CommitError> {
    let mut txn = Txn::new(shared, [shared.heap().lock(0)].into_iter().collect(), now);
    set(&mut txn, words);
    txn.commit()
}

fn set(txn: &mut Txn<'_>, words: [u64; WORDS]) {
    for (n, word) in words.into_iter().enumerate() {
        txn.set_root(POSITION_ROOT + n, word);
    }
}
