//! The stream: the bytes that replicas receive, as many as they may still need.
//!
//! Bytes are kept in blocks. Those within `backlog` bytes of the end are kept for replicas that
//! come back, and older ones for a replica that is still to get them, since its dump took long or
//! since it is slow, up to a limit: a replica further behind loses its place, and its memory is
//! given back.
//!
//! An *offset* is the number of bytes of the history before a place. What a replica asks for by
//! PSYNC is the number of the first byte that it lacks, counted from 1: its offset plus 1.

mod reserve;
mod restart;

use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use self::reserve::Pending;
pub use self::reserve::Reserved;
use crate::Id;
use crate::ring::Ring;

/// Bytes of a block.
pub const BLOCK: usize = 64 << 10;

/// A replica's place in the stream is lost: it was too far behind, or the history was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the replica's place in the replication stream is lost")]
pub struct Lost;

/// The stream of one server. Shared by all threads.
pub struct Stream {
    /// Whether commands are appended: a glance for those who would have to collect them.
    is_on: AtomicBool,
    /// The offset of the end, for those who only look.
    end: AtomicU64,
    /// Whether there is a ring, in which commits reserve their places.
    has_ring: AtomicBool,
    /// The offset after the last change of data.
    changed: AtomicU64,
    /// Counts how often the history was replaced or renamed, or a change was skipped.
    epoch: AtomicU64,
    state: Mutex<State>,
}

struct State {
    id: Id,
    /// The history that this one continues, and the offset up to which both are the same.
    second: Option<(Id, u64)>,
    /// The history that the second one has continued, in the same way.
    third: Option<(Id, u64)>,
    /// The offset of the first byte that is kept.
    start: u64,
    end: u64,
    /// All but the last have [`BLOCK`] bytes.
    blocks: VecDeque<Vec<u8>>,
    /// The database that is selected at the end; none if the next command must select its own.
    db: Option<u32>,
    /// The end of the last commands that selected theirs and belong to no commit.
    selected_at: u64,
    /// Bytes before the end that are kept for replicas that come back.
    backlog: u64,
    /// Maximum of bytes that are kept for a connected replica; 0 for no limit.
    limit: u64,
    /// Whether the history is that of a primary, in which this server's own commands have no place.
    is_received: bool,
    places: Vec<Place>,
    sleepers: Vec<Waker>,
    /// Where the stream's end is kept, so that it outlives the process.
    ring: Option<Ring>,
    /// Places of commits that have not ended, and of those after them, in order: nothing of them is
    /// shown.
    pending: VecDeque<Pending>,
    /// The number of the next place that is reserved.
    next_number: u64,
}

/// A replica's place.
enum Place {
    /// Nobody has it.
    Free,
    /// The bytes from this offset on are still to be sent.
    At(u64),
    /// See [`Lost`].
    Lost,
}

/// What is known of the stream at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The history.
    pub id: Id,
    /// The history that it continues, and the offset up to which both are the same.
    pub second: Option<(Id, u64)>,
    /// The offset of its end.
    pub end: u64,
    /// Bytes before the end that are kept.
    pub kept: u64,
    /// The database that is selected at the end; none if the next command selects its own.
    pub db: Option<u32>,
    /// How often the history had been replaced or renamed, or a change skipped.
    pub epoch: u64,
}

impl Stream {
    /// Returns an empty stream that is switched off. It keeps `backlog` bytes when it is on.
    pub fn new(id: Id, backlog: u64) -> Stream {
        let state = State {
            id,
            second: None,
            third: None,
            start: 0,
            end: 0,
            blocks: VecDeque::new(),
            db: None,
            selected_at: 0,
            backlog,
            limit: 0,
            is_received: false,
            places: Vec::new(),
            sleepers: Vec::new(),
            ring: None,
            pending: VecDeque::new(),
            next_number: 0,
        };
        let (is_on, end, has_ring, changed, epoch) = Default::default();
        Stream { is_on, end, has_ring, changed, epoch, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if commands are appended.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Returns the offset of its end: what comes after it waits for commits that have not ended.
    /// What else a thread knows of appends before it, such as where they end in the log, is visible
    /// after this.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Acquire)
    }

    /// Returns the offset of its end, if the history is that of `epoch` still.
    pub fn end_in(&self, epoch: u64) -> Option<u64> {
        let state = self.state();
        (self.epoch() == epoch).then_some(state.shown())
    }

    /// Returns the offset at which a replica has all data that is here now, as far as commits had
    /// been appended: PING and the like come after it. While the stream is off it is unknown.
    #[inline]
    pub fn changed(&self) -> u64 {
        self.changed.load(Acquire)
    }

    /// Returns where it is.
    pub fn position(&self) -> Position {
        self.state().position(self.epoch())
    }

    /// Returns the history that the [second](Position::second) one has continued, and the offset up
    /// to which they are the same: others know by it whose successor this server is.
    pub fn third(&self) -> Option<(Id, u64)> {
        self.state().third
    }

    /// Returns the bytes of memory that it takes.
    pub fn memory(&self) -> u64 {
        self.state().blocks.iter().map(|block| block.capacity() as u64).sum()
    }

    /// Returns how many bytes before the end are kept for replicas that come back.
    pub fn backlog(&self) -> u64 {
        self.state().backlog
    }

    /// Begins to take commands. A command that had begun before may not have been collected: see
    /// [`Stream::note_skipped`].
    pub fn switch_on(&self) {
        let state = self.state();
        if !self.is_on() {
            debug_assert!(state.pending.is_empty(), "nothing is reserved while it is off");
            // Only a replica whose dump is made from now on has what is here.
            self.changed.store(state.end, Release);
            self.is_on.store(true, Relaxed);
        }
    }

    /// Says whether the history is that of a primary from now on. Then commands that are appended
    /// nevertheless, by threads that do not know it yet, are skipped.
    pub fn set_received(&self, is_received: bool) {
        let mut state = self.state();
        state.is_received = is_received;
        self.drop_ring(&mut state);
    }

    /// Stops taking commands and frees what is kept. The history ends: the next one has this ID.
    pub fn switch_off(&self, next: Id) {
        let mut state = self.state();
        self.is_on.store(false, Relaxed);
        self.forget(&mut state);
        (state.id, state.second, state.third) = (next, None, None);
        self.next_epoch(&mut state);
        state.wake();
    }

    /// Gives the history another name, under which no replica knows it.
    pub fn set_id(&self, id: Id) {
        let mut state = self.state();
        (state.id, state.second, state.third) = (id, None, None);
        self.drop_ring(&mut state);
    }

    /// Sets how many bytes are kept for replicas that come back, and for those that are connected
    /// (0 for no limit).
    pub fn set_limits(&self, backlog: u64, connected: u64) {
        let mut state = self.state();
        (state.backlog, state.limit) = (backlog, connected);
        state.trim();
    }

    /// Appends commands, of which the first needs database `first` selected and the last leaves
    /// `last` selected. Returns the offset after them. The shards of what they changed are locked.
    /// In a primary's history they are [skipped](Stream::note_skipped).
    pub fn append(&self, first: u32, last: u32, commands: &[u8]) -> u64 {
        let mut state = self.state();
        if state.is_received {
            return self.skip(state);
        }
        if state.db != Some(first) {
            state.append(&[select(first).as_bytes(), commands]);
        } else {
            state.append(&[commands]);
        }
        self.drop_failed_ring(&mut state);
        (state.db, state.selected_at) = (Some(last), state.end);
        self.changed.store(state.end, Release);
        self.show(state)
    }

    /// Appends commands that need no database, such as PING and PUBLISH; nothing to a primary's
    /// history. Returns the offset of the end.
    pub fn append_free(&self, commands: &[u8]) -> u64 {
        let mut state = self.state();
        if state.is_received {
            return state.end;
        }
        state.append(&[commands]);
        self.drop_failed_ring(&mut state);
        self.show(state)
    }

    /// Returns how often the history was replaced or renamed, or a change was skipped.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Begins another epoch, while the state is locked. Returns it.
    fn next_epoch(&self, _: &mut State) -> u64 {
        self.epoch.fetch_add(1, Relaxed) + 1
    }

    /// Appends bytes of a primary's stream as they came; they leave database `db` selected. Returns
    /// false, with nothing appended, if the history is not that of `epoch` any more.
    pub fn append_received(&self, epoch: u64, db: u32, bytes: &[u8]) -> bool {
        let mut state = self.state();
        // A commit that began when this server was a primary itself has not ended.
        if self.epoch() != epoch || !state.pending.is_empty() {
            return false;
        }
        state.db = Some(db);
        state.push(bytes);
        self.changed.store(state.end, Release);
        self.show(state);
        true
    }

    /// Shows what is in the stream before the first commit that has not ended, and wakes those who
    /// wait for it. Returns the offset after all that was appended.
    fn show(&self, mut state: MutexGuard<'_, State>) -> u64 {
        state.trim();
        self.end.store(state.shown(), Release);
        state.wake();
        state.end
    }

    /// Notes that a change was not appended: no replica may continue from before it. It counts as
    /// one byte that nobody has. Returns the offset after it.
    pub fn note_skipped(&self) -> u64 {
        self.skip(self.state())
    }

    fn skip(&self, mut state: MutexGuard<'_, State>) -> u64 {
        state.end += 1;
        self.next_epoch(&mut state);
        self.forget(&mut state);
        self.changed.store(state.end, Release);
        self.end.store(state.end, Release);
        state.wake();
        state.end
    }

    /// Makes the next command select its database, and returns where the stream is: for the moment
    /// at which a dump is fixed, when all shards are locked.
    pub fn cut(self: &Arc<Stream>) -> (Position, Cursor) {
        let mut state = self.state();
        state.db = None;
        self.place_at_end(state)
    }

    /// Returns where the stream is, as a replica that only passes on what it receives: it cannot
    /// select a database of its own, so the receiver must be told `db`.
    pub fn cut_received(self: &Arc<Stream>) -> (Position, Cursor) {
        self.place_at_end(self.state())
    }

    fn place_at_end(self: &Arc<Stream>, mut state: MutexGuard<'_, State>) -> (Position, Cursor) {
        let position = state.position(self.epoch());
        let place = state.place(position.end);
        drop(state);
        (position, Cursor { stream: Arc::clone(self), place })
    }

    /// Returns true if the history `id` is received here and its primary has more of it, which a
    /// replica with `offset` has got already: this server lost it by a crash. An offset further off
    /// than a backlog is not believed.
    pub fn will_reach(&self, id: Id, offset: u64) -> bool {
        let state = self.state();
        let is_near = offset > state.end && offset - state.end <= state.backlog;
        state.is_received && id == state.id && is_near
    }

    /// Returns a place for a replica that has the history `id` up to `offset`, and the history's
    /// present ID; none if it cannot continue from there.
    pub fn resume(self: &Arc<Stream>, id: Id, offset: u64) -> Option<(Id, Cursor)> {
        let mut state = self.state();
        // A primary may have crashed twice before the replica asks.
        let within = |history: Option<(Id, u64)>| {
            history.filter(|(of, until)| id == *of && offset <= *until).is_some()
        };
        let of_third =
            state.second.is_some_and(|(_, until)| offset <= until) && within(state.third);
        let is_shared = id == state.id || within(state.second) || of_third;
        if !self.is_on() || !is_shared || !(state.start..=state.shown()).contains(&offset) {
            return None;
        }
        let place = state.place(offset);
        Some((state.id, Cursor { stream: Arc::clone(self), place }))
    }

    /// Replaces the history by that of a primary, whose dump was loaded at `offset`. The stream is
    /// on: replicas of this replica can continue from here on. Returns where it is.
    pub fn adopt(&self, id: Id, offset: u64, db: Option<u32>) -> Position {
        let mut state = self.state();
        (state.id, state.second, state.third) = (id, None, None);
        (state.end, state.db) = (offset, db);
        let epoch = self.next_epoch(&mut state);
        self.forget(&mut state);
        self.changed.store(offset, Release);
        self.end.store(offset, Release);
        self.is_on.store(true, Relaxed);
        state.wake();
        state.position(epoch)
    }

    /// Continues the history under another ID: the primary has got it, or this server is the
    /// primary now. Replicas that have the old one can continue, once they have asked: all places
    /// are lost. Returns its epoch.
    pub fn rename(&self, id: Id) -> u64 {
        let mut state = self.state();
        state.third = state.second;
        state.second = Some((state.id, state.shown()));
        state.id = id;
        self.drop_ring(&mut state);
        let epoch = self.next_epoch(&mut state);
        state.lose_places();
        state.wake();
        epoch
    }

    /// Makes the next command select its database: this server is the primary now.
    pub fn forget_database(&self) {
        self.state().db = None;
    }
}

impl State {
    fn position(&self, epoch: u64) -> Position {
        Position {
            id: self.id,
            second: self.second,
            end: self.shown(),
            kept: self.shown() - self.start,
            db: self.db,
            epoch,
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        self.end += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK) {
                self.blocks.push_back(Vec::with_capacity(BLOCK));
            }
            let Some(block) = self.blocks.back_mut() else { return };
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - block.len()));
            block.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Frees blocks that nobody needs, and takes their places from replicas that are too far
    /// behind.
    fn trim(&mut self) {
        let limit = if self.limit == 0 { u64::MAX } else { self.limit.max(self.backlog) };
        let mut needed = self.end.saturating_sub(self.backlog).min(self.shown());
        for place in &mut self.places {
            match *place {
                Place::At(at) if self.end - at > limit => *place = Place::Lost,
                Place::At(at) => needed = needed.min(at),
                Place::Free | Place::Lost => {}
            }
        }
        while let Some(block) = self.blocks.front()
            && self.blocks.len() > 1
            && self.start + block.len() as u64 <= needed
        {
            self.start += block.len() as u64;
            self.blocks.pop_front();
        }
    }

    /// Drops all bytes, and all places, also those of commits that have not ended.
    fn forget(&mut self) {
        self.pending.clear();
        self.selected_at = 0;
        self.blocks.clear();
        self.start = self.end;
        self.lose_places();
    }

    fn lose_places(&mut self) {
        for place in &mut self.places {
            if matches!(place, Place::At(_)) {
                *place = Place::Lost;
            }
        }
    }

    fn place(&mut self, offset: u64) -> usize {
        let free = self.places.iter().position(|place| matches!(place, Place::Free));
        let place = free.unwrap_or_else(|| {
            self.places.push(Place::Free);
            self.places.len() - 1
        });
        self.places[place] = Place::At(offset);
        place
    }

    fn wake(&mut self) {
        self.sleepers.drain(..).for_each(Waker::wake);
    }

    /// Appends to `out` the bytes from `from` up to `until`, at most to the end of a block.
    fn copy(&self, from: u64, until: u64, out: &mut Vec<u8>) -> u64 {
        let within = (from - self.start) as usize;
        let (block, at) = (within / BLOCK, within % BLOCK);
        let Some(bytes) = self.blocks.get(block) else { return 0 };
        let len = bytes.len().saturating_sub(at).min((until - from) as usize);
        out.extend_from_slice(&bytes[at..at + len]);
        len as u64
    }
}

/// Returns the command that selects a database.
fn select(db: u32) -> String {
    let number = db.to_string();
    format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len())
}

/// A replica's place in the stream; given back when it is dropped.
pub struct Cursor {
    stream: Arc<Stream>,
    place: usize,
}

impl Cursor {
    /// Returns the offset of the next byte that it reads.
    pub fn offset(&self) -> Result<u64, Lost> {
        match self.stream.state().places[self.place] {
            Place::At(at) => Ok(at),
            Place::Free | Place::Lost => Err(Lost),
        }
    }

    /// Appends to `out` bytes of the stream before the offset `until`, and moves behind them: at
    /// most [`BLOCK`] bytes, and none if it is there already.
    pub fn read(&mut self, until: u64, out: &mut Vec<u8>) -> Result<u64, Lost> {
        let mut state = self.stream.state();
        let Place::At(at) = state.places[self.place] else { return Err(Lost) };
        let read = state.copy(at, until.min(state.shown()).max(at), out);
        state.places[self.place] = Place::At(at + read);
        Ok(read)
    }

    /// Returns true if there are bytes to read; else `waker` is woken when there are.
    pub fn poll(&self, waker: &Waker) -> Result<bool, Lost> {
        let mut state = self.stream.state();
        let Place::At(at) = state.places[self.place] else { return Err(Lost) };
        if at < state.shown() {
            return Ok(true);
        }
        if !state.sleepers.iter().any(|sleeper| sleeper.will_wake(waker)) {
            state.sleepers.push(waker.clone());
        }
        Ok(false)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let mut state = self.stream.state();
        state.places[self.place] = Place::Free;
        state.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Id = Id::NONE;

    fn b() -> Id {
        Id::from_random([0xb; 20])
    }

    fn stream(backlog: u64) -> Arc<Stream> {
        let stream = Arc::new(Stream::new(A, backlog));
        stream.switch_on();
        stream
    }

    fn rest(cursor: &mut Cursor) -> Result<Vec<u8>, Lost> {
        let mut all = Vec::new();
        while cursor.read(u64::MAX, &mut all)? > 0 {}
        Ok(all)
    }

    #[test]
    fn a_database_is_selected_where_it_changes_and_after_a_cut() {
        let stream = stream(1000);
        let (_, mut cursor) = stream.cut();
        stream.append(0, 0, b"a");
        stream.append(0, 10, b"b");
        stream.append(10, 10, b"c");
        stream.append_free(b"p");
        let select = |db: &str| format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{db}\r\n", db.len());
        assert_eq!(rest(&mut cursor), Ok(format!("{}abcp", select("0")).into_bytes()));
        stream.append(3, 3, b"d");
        let (position, mut second) = stream.cut();
        assert_eq!((position.end, position.db), (stream.end(), None));
        stream.append(3, 3, b"e");
        assert_eq!(rest(&mut second), Ok(format!("{}e", select("3")).into_bytes()));
        let both = format!("{}d{}e", select("3"), select("3"));
        assert_eq!(rest(&mut cursor), Ok(both.into_bytes()));
    }

    #[test]
    fn what_was_received_is_passed_on_as_it_came() {
        let stream = stream(1000);
        let epoch = stream.adopt(b(), 70, None).epoch;
        let (position, mut cursor) = stream.cut_received();
        assert_eq!((position.id, position.end, position.db), (b(), 70, None));
        assert!(stream.append_received(epoch, 9, b"SELECT 9, SET"));
        assert_eq!((stream.end(), stream.position().db), (83, Some(9)));
        assert_eq!(rest(&mut cursor), Ok(b"SELECT 9, SET".to_vec()));
        assert_eq!(stream.end_in(epoch), Some(83));
        stream.rename(A);
        assert!(!stream.append_received(epoch, 9, b"late"), "this server is a primary meanwhile");
        assert_eq!(stream.end_in(epoch), None);
        assert_eq!((stream.end(), cursor.offset()), (83, Err(Lost)));
    }

    #[test]
    fn bytes_are_kept_for_the_backlog_and_for_the_slowest_replica() {
        for backlog in [1, BLOCK as u64 - 1, BLOCK as u64, 3 * BLOCK as u64 + 1] {
            let stream = stream(backlog);
            let (_, mut slow) = stream.cut();
            let mut sent = Vec::new();
            for number in 0..20 * BLOCK / 1000 {
                let bytes = [number as u8; 1000];
                stream.append_free(&bytes);
                sent.extend_from_slice(&bytes);
            }
            assert_eq!(stream.position().kept, sent.len() as u64, "the replica needs them all");
            assert_eq!(rest(&mut slow).as_ref(), Ok(&sent));
            stream.append_free(b"x");
            sent.push(b'x');
            let kept = stream.position().kept;
            assert!((backlog..backlog + 2 * BLOCK as u64).contains(&kept), "{backlog}: {kept}");
            let first = stream.end() - kept;
            assert!(stream.resume(A, first - 1).is_none());
            for offset in [first, first + 1, stream.end() - 1, stream.end()] {
                let (id, mut cursor) = stream.resume(A, offset).expect("it is kept");
                assert_eq!((id, cursor.offset()), (A, Ok(offset)));
                assert_eq!(rest(&mut cursor).as_deref(), Ok(&sent[offset as usize..]));
            }
            assert!(stream.resume(A, stream.end() + 1).is_none(), "nobody is ahead");
        }
    }

    #[test]
    fn a_replica_too_far_behind_loses_its_place_and_its_memory() {
        let stream = stream(10);
        stream.set_limits(10, 3 * BLOCK as u64);
        let (_, cursor) = stream.cut();
        stream.append_free(&[0; 3 * BLOCK]);
        assert_eq!(cursor.offset(), Ok(0));
        stream.append_free(b"x");
        assert_eq!(cursor.offset(), Err(Lost));
        assert!(stream.position().kept <= BLOCK as u64 + 10);
        drop(cursor);
        let (_, next) = stream.cut();
        assert_eq!(next.offset(), Ok(stream.end()), "the place is used again");
    }

    #[test]
    fn reading_stops_at_the_given_offset() {
        let stream = stream(10);
        let (_, mut cursor) = stream.cut();
        stream.append_free(b"durable, not yet");
        let mut out = Vec::new();
        assert_eq!(cursor.read(7, &mut out), Ok(7));
        assert_eq!(cursor.read(7, &mut out), Ok(0));
        assert_eq!(cursor.read(3, &mut out), Ok(0), "it never goes back");
        assert_eq!(out, b"durable");
    }

    #[test]
    fn a_skipped_change_makes_every_replica_begin_again() {
        let stream = stream(1000);
        stream.append_free(b"abc");
        let (_, cursor) = stream.cut();
        stream.note_skipped();
        assert_eq!(cursor.offset(), Err(Lost));
        assert!(stream.resume(A, 3).is_none());
        assert!(stream.resume(A, 4).is_some(), "only a dump made later ends there");
    }

    #[test]
    fn a_server_appends_nothing_of_its_own_to_a_primarys_history() {
        let stream = stream(1000);
        stream.append_free(b"abc");
        stream.set_received(true);
        let epoch = stream.epoch();
        assert_eq!(stream.append_free(b"ping"), 3);
        assert_eq!((stream.position().end, stream.epoch()), (3, epoch));
        assert!(stream.append_received(epoch, 0, b"de"));
        assert_eq!(stream.append(0, 0, b"late"), 6, "it is in the data and in no stream");
        assert!(!stream.append_received(epoch, 0, b"f"), "the data is not the primary's");
        assert!(stream.resume(A, 5).is_none());
        stream.set_received(false);
        let (_, mut cursor) = stream.cut();
        stream.append_free(b"own");
        assert_eq!(rest(&mut cursor), Ok(b"own".to_vec()));
    }

    #[test]
    fn a_replica_ahead_of_what_is_received_waits_for_it() {
        let stream = stream(1000);
        let epoch = stream.adopt(b(), 70, None).epoch;
        assert!(!stream.will_reach(b(), 71), "its own history");
        stream.set_received(true);
        assert!(stream.will_reach(b(), 71) && stream.will_reach(b(), 1070));
        assert!(!stream.will_reach(b(), 70) && !stream.will_reach(b(), 1071));
        assert!(!stream.will_reach(A, 71));
        assert!(stream.append_received(epoch, 0, b"x"));
        assert!(!stream.will_reach(b(), 71) && stream.resume(b(), 71).is_some());
    }

    #[test]
    fn a_renamed_history_is_continued_up_to_the_change() {
        let stream = stream(1000);
        stream.append_free(b"abc");
        stream.rename(b());
        stream.append_free(b"def");
        assert!(stream.resume(A, 3).is_some_and(|(id, _)| id == b()));
        assert!(stream.resume(A, 4).is_none(), "it has what this history never had");
        assert!(stream.resume(b(), 6).is_some());
        stream.switch_off(A);
        assert!(stream.resume(A, 6).is_none(), "nothing is taken any more");
    }

    #[test]
    fn sleepers_are_woken_by_bytes_and_by_a_loss() {
        use std::sync::atomic::AtomicUsize;
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Count>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let stream = stream(1000);
        let (_, mut cursor) = stream.cut();
        assert_eq!(cursor.poll(&waker), Ok(false));
        assert_eq!(cursor.poll(&waker), Ok(false));
        stream.append_free(b"a");
        assert_eq!(count.0.load(Relaxed), 1, "once");
        assert_eq!(cursor.poll(&waker), Ok(true));
        assert_eq!(rest(&mut cursor), Ok(b"a".to_vec()));
        assert_eq!(cursor.poll(&waker), Ok(false));
        stream.note_skipped();
        assert_eq!(count.0.load(Relaxed), 2);
        assert_eq!(cursor.poll(&waker), Err(Lost));
    }
}
