//! The place of the data in a stream for replicas, from which replication goes on after a restart.
//!
//! The pool has at most one, in one of three forms:
//!
//! - A *final* place is left by a clean end: it is written last, when nothing can change any more,
//!   and is true for exactly the data with which it was written.
//! - A *moving* place is kept by a replica that follows a primary, so that it survives a crash.
//!   Whoever commits what the primary sent stages the offset after it in the same transaction, in a
//!   word of one of the shards that it changes. The place is the greatest of these offsets, since
//!   the primary's commands are committed one after the other, and a crash keeps a prefix of the
//!   commits. A commit of anything else that changes data marks a shard instead: then there is no
//!   place until all data is replaced, since it is not the primary's any more.
//! - An *own* place is kept by a primary, in the same way. Its commits do not follow one another:
//!   several threads commit at the same time, and a crash may keep a later one without an earlier
//!   one. The shards' words say which commits survived; the primary has their bytes in its ring
//!   file.
//!
//! All have the pool's epoch, which every opening raises: a place of any epoch but the last is not
//! believed, so that one is void if a program opened the pool that does not know it. An opening
//! that believes a place gives it its own epoch, and makes a final one move, before anything can
//! change: if it crashes, or gives up, before it has changed anything, the next one finds the place
//! again.
//!
//! The place takes root words of shard 0, all of which change in one transaction:
//!
//! ```text
//! 100       0 for none; else 1 for a final place, 4 for a moving one or 8 for an own one | 2 if
//!           there is a second history | 16 if the data is a replica's | database + 1 (0: none
//!           selected) in bits 8..16 | epoch in bits 32..64
//! 101       offset
//! 102..105  ID of the history: 20 bytes, zeros
//! 105..108  ID of the second history
//! 108       offset up to which that is the same
//! 109       crc32c of the words before
//! ```
//!
//! and, in each shard, if the place moves:
//!
//! ```text
//! 117       database + 1, or 30 if nothing was committed here since it began, or 31 after a change
//!           that is in no stream, in bits 0..5 | offset in bits 5..64
//! ```

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use heap::CommitError;

use crate::fault_points::FaultPoint;
use crate::layout::{LIBRARIES, MOVED_ROOT, POSITION_ROOT, fields_root};
use crate::shared::Shared;
use crate::txn::moves::{Moves, last_move, moved_to};
use crate::{Db, Txn};

/// Words of a position.
const WORDS: usize = 10;
const _: () = assert!(POSITION_ROOT + WORDS <= fields_root(LIBRARIES));
const SUM: usize = WORDS - 1;
const IS_FINAL: u64 = 1;
const HAS_SECOND: u64 = 2;
const MOVES: u64 = 4;
const OWN: u64 = 8;
const IS_REPLICA: u64 = 16;

/// A primary's own place, as its crash left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPlace {
    /// The offset at which it began.
    pub begun: u64,
    /// For each shard the offset after its last commit since then; 0 if there is none.
    pub shards: Vec<u64>,
}

/// The place that the last use of a pool left, and what there is to know of a primary's own one.
pub type LeftPosition = (StreamPosition, Option<OwnPlace>);

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
    /// Whether the data is a replica's: its primary replaces what anybody else changes there.
    pub is_replica: bool,
}

impl StreamPosition {
    fn encode(&self, form: u64, epoch: u32) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let db = self.db.map_or(0, |db| u64::from(db) + 1);
        let second = if self.second.is_some() { HAS_SECOND } else { 0 };
        let replica = if self.is_replica { IS_REPLICA } else { 0 };
        words[0] = form | second | replica | db << 8 | u64::from(epoch) << 32;
        words[1] = self.offset;
        words[2..5].copy_from_slice(&id_words(&self.id));
        if let Some((id, until)) = &self.second {
            words[5..8].copy_from_slice(&id_words(id));
            words[8] = *until;
        }
        words[SUM] = sum(&words);
        words
    }

    /// Returns the position in these words, which are those of shard 0, and of each shard, and
    /// what else there is to know of an own one.
    fn decode(words: &[u64; WORDS], moved: &[u64], epoch: u32) -> Option<LeftPosition> {
        let head = words[0];
        if words[SUM] != sum(words) || (head >> 32) as u32 != epoch {
            return None;
        }
        let second = (head & HAS_SECOND != 0).then(|| (id_of(&words[5..8]), words[8]));
        let (begun, db) = (words[1], ((head >> 8) as u8).checked_sub(1));
        let (id, is_replica) = (id_of(&words[2..5]), head & IS_REPLICA != 0);
        let written = StreamPosition { id, offset: begun, db, second, is_replica };
        let form = head & (IS_FINAL | MOVES | OWN);
        if form == IS_FINAL {
            return Some((written, None));
        }
        let position = match last_move(begun, moved)? {
            None => written,
            Some((offset, db)) => StreamPosition { offset, db: Some(db), ..written },
        };
        let shards = || moved.iter().map(|word| moved_to(*word).unwrap_or(0)).collect();
        match form {
            MOVES => Some((position, None)),
            OWN => Some((position, Some(OwnPlace { begun, shards: shards() }))),
            _ => None,
        }
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

/// Returns the place that the last use of the pool left, if that is true for the data still, and
/// keeps it, from `now` (unix ms) on, as one that moves.
pub(crate) fn adopt(shared: &Shared, now: u64) -> Option<LeftPosition> {
    let words: [u64; WORDS] = std::array::from_fn(|n| shared.root_word(0, POSITION_ROOT + n));
    if words == [0; WORDS] {
        return None;
    }
    let epoch = shared.heap().epoch();
    let found = StreamPosition::decode(&words, &moved(shared), epoch.wrapping_sub(1));
    if let Some((position, _)) = &found
        && words[0] & IS_FINAL != 0
    {
        begin(lock_all(shared, now), shared, position.encode(MOVES, epoch)).ok()?;
        return found;
    }
    let mut txn = lock_first(shared, now);
    if found.is_some() {
        // The words of the shards stay: they say which commits there are.
        let mut words = words;
        words[0] = words[0] & u64::from(u32::MAX) | u64::from(epoch) << 32;
        words[SUM] = sum(&words);
        txn.set_position(words);
    } else {
        txn.forget_position();
    }
    txn.commit().ok()?;
    shared.keeps_position.store(found.is_some(), Relaxed);
    found
}

/// The place of a keyspace's data in a stream: what the last use of the pool left, and what this
/// one keeps.
#[derive(Clone, Copy)]
pub struct Position<'k> {
    shared: &'k Shared,
    left: &'k Mutex<Option<LeftPosition>>,
}

impl<'k> Position<'k> {
    pub(crate) fn new(shared: &'k Shared, left: &'k Mutex<Option<LeftPosition>>) -> Position<'k> {
        Position { shared, left }
    }

    /// Returns the place that the last use of the pool left, once.
    pub fn take(self) -> Option<StreamPosition> {
        self.take_place().map(|(position, _)| position)
    }

    /// Like [`Position::take`], with what there is to know of a primary's own place.
    pub fn take_place(self) -> Option<LeftPosition> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Leaves, at `now` (unix ms), a final place for the next opening, if that is a pool's.
    /// `position` says which it is, while all shards are locked; commits after that are refused.
    /// None is left if it is none, or if data was changed otherwise since a place was kept.
    /// Returns what was left.
    pub fn leave(
        self,
        position: impl FnOnce() -> Option<StreamPosition>,
        now: u64,
    ) -> Result<Option<StreamPosition>, CommitError> {
        let heap = self.shared.heap();
        let mut txn = lock_all(self.shared, now);
        let left = position().filter(|_| !self.has_lost());
        match &left {
            Some(position) => txn.set_position(position.encode(IS_FINAL, heap.epoch())),
            None if self.is_kept() => txn.set_position([0; WORDS]),
            None => return Ok(None),
        }
        txn.commit()?;
        if left.is_some() {
            heap.pause_held();
        }
        Ok(left)
    }

    /// Keeps a place that moves, from `now` (unix ms) on, if this is a pool. It moves with
    /// [`Txn::set_stream_position`], survives a crash, and ends with the first other commit of
    /// data, until all data is replaced ([`Keyspace::set_syncing`]). `position` says where it
    /// begins, while all shards are locked; none ends what was kept. Returns true if a place is
    /// kept: not if data was changed otherwise since an earlier one began.
    ///
    /// [`Keyspace::set_syncing`]: crate::Keyspace::set_syncing
    pub fn keep(
        self,
        position: impl FnOnce() -> Option<StreamPosition>,
        now: u64,
    ) -> Result<bool, CommitError> {
        let shared = self.shared;
        let txn = lock_all(shared, now);
        let Some(position) = position().filter(|_| shared.heap().is_durable()) else {
            drop(txn);
            return self.forget(now).map(|()| false);
        };
        if self.has_lost() && FaultPoint::StayLost.is_enabled() {
            return Ok(false);
        }
        let words = position.encode(MOVES, shared.heap().epoch());
        begin(txn, shared, words).map(|()| true)
    }

    /// Keeps, from `now` (unix ms) on, the place of a primary's data in its own stream, if this is
    /// a pool, whatever was changed before. It is kept like one of [`Position::keep`], but commits
    /// may end in another order than that of their offsets. If `position` returns `None`, the
    /// present place is kept. Returns true if this place is kept.
    pub fn keep_own(
        self,
        position: impl FnOnce() -> Option<StreamPosition>,
        now: u64,
    ) -> Result<bool, CommitError> {
        let shared = self.shared;
        let txn = lock_all(shared, now);
        let Some(position) = position().filter(|_| shared.heap().is_durable()) else {
            return Ok(false);
        };
        begin(txn, shared, position.encode(OWN, shared.heap().epoch())).map(|()| true)
    }

    /// Returns true if commits say where the data is in a stream.
    #[inline]
    pub fn is_kept(self) -> bool {
        self.shared.keeps_position.load(Relaxed)
    }

    /// Returns the offset of the place that is kept, if data was not changed otherwise since it was
    /// begun.
    pub fn kept_offset(self) -> Option<u64> {
        if !self.is_kept() {
            return None;
        }
        let last = last_move(0, &moved(self.shared))?;
        let begun = || self.shared.root_word(0, POSITION_ROOT + 1);
        Some(last.map_or_else(begun, |(offset, _)| offset))
    }

    /// Returns true if a place was kept, and data was changed otherwise.
    fn has_lost(self) -> bool {
        self.is_kept() && self.kept_offset().is_none()
    }

    /// Moves the place that is kept, at `now` (unix ms), behind commands that changed no data, if
    /// `offset` is more than `step` bytes ahead of it. This database is selected there. Nothing
    /// else that a primary sent is committed meanwhile.
    pub fn advance(self, offset: u64, db: Db, step: u64, now: u64) -> Result<(), CommitError> {
        match self.kept_offset() {
            Some(last) if offset > last.saturating_add(step) => {}
            _ => return Ok(()),
        }
        let mut txn = lock_first(self.shared, now);
        txn.advance_position(offset, db);
        txn.commit()
    }

    /// Ends, at `now` (unix ms), what [`Position::keep`] began: the data is not that of a primary
    /// any more. No shard may be locked by the caller, and nobody commits what a primary sends
    /// meanwhile.
    pub fn forget(self, now: u64) -> Result<(), CommitError> {
        if !self.is_kept() {
            return Ok(());
        }
        let mut txn = lock_first(self.shared, now);
        txn.forget_position();
        txn.commit()?;
        self.shared.keeps_position.store(false, Relaxed);
        Ok(())
    }
}

/// Begins a position that moves, whose words these are, in a transaction that has all shards
/// locked.
fn begin(mut txn: Txn<'_>, shared: &Shared, words: [u64; WORDS]) -> Result<(), CommitError> {
    txn.set_position(words);
    if FaultPoint::MoveFromStart.is_enabled() {
        txn.begin_moves();
    }
    txn.commit()?;
    shared.keeps_position.store(true, Relaxed);
    Ok(())
}

/// Returns what the last commits of all shards say.
fn moved(shared: &Shared) -> Vec<u64> {
    (0..shared.shards()).map(|shard| shared.root_word(shard, MOVED_ROOT)).collect()
}

/// Locks shard 0, which has the place.
fn lock_first(shared: &Shared, now: u64) -> Txn<'_> {
    Txn::new(shared, [shared.heap().lock(0)].into_iter().collect(), now)
}

fn lock_all(shared: &Shared, now: u64) -> Txn<'_> {
    let heap = shared.heap();
    Txn::new(shared, (0..heap.shards()).map(|shard| heap.lock(shard)).collect(), now)
}

impl Txn<'_> {
    /// Stages the words of a position, in a commit that changes no data.
    fn set_position(&mut self, words: [u64; WORDS]) {
        self.moves = Moves::Nowhere;
        for (n, word) in words.into_iter().enumerate() {
            self.set_root(POSITION_ROOT + n, word);
        }
    }

    /// Stages that there is no position any more, whatever else changes.
    pub(crate) fn forget_position(&mut self) {
        self.set_position([0; WORDS]);
    }
}
