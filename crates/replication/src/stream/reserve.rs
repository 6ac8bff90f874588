//! Places in the stream that are reserved before a commit, so that a crash leaves both the commit
//! and its bytes, or neither.
//!
//! Such a place is in the [ring](crate::ring) before the commit, which stages the offset of its
//! end. Until the commit has ended nobody is shown these bytes, nor any after them. If the commit
//! fails they become padding. A crash leaves some of these commits: the bytes of the others become
//! padding then, if others follow. So no command may need a database that a SELECT in such a place
//! selects: what follows one selects its own, until the commit has ended.
//!
//! After a commit of which nobody knows whether it counts nothing is shown any more: the store
//! takes no more writes, and only a restart can tell.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{BLOCK, Position, State, Stream, select};
use crate::PING;
use crate::fault_points::FaultPoint;
use crate::padding::{padding, pings_before};
use crate::ring::{Ring, Written};

/// A place of a commit, and whether that has ended.
pub(super) struct Pending {
    number: u64,
    start: u64,
    end: u64,
    written: Written,
    has_ended: bool,
    /// The database that is selected after it, if it selects one.
    selects: Option<u32>,
}

/// The place of a commit that has not ended. If it is dropped before it is known how the commit
/// ended, every replica begins again.
#[must_use = "the commit's place must be shown or made void"]
pub struct Reserved<'s> {
    stream: &'s Stream,
    number: u64,
    end: u64,
    is_open: bool,
}

impl Stream {
    /// Returns true if commits reserve their places.
    #[inline]
    pub fn reserves(&self) -> bool {
        self.has_ring.load(Relaxed)
    }

    /// Returns the offset after all that was appended, also after what is not shown yet.
    pub fn appended(&self) -> u64 {
        self.state().end
    }

    /// Begins a ring that `make` makes for where the stream is, and for at most `most` bytes before
    /// that. All shards are locked. Returns where that is; none, without a ring, if the stream
    /// takes no commands.
    pub fn begin_ring(
        &self,
        most: u64,
        make: impl FnOnce(&Position, &[u8]) -> Ring,
    ) -> Option<Position> {
        let mut state = self.state();
        self.drop_ring(&mut state);
        if !self.is_on() || state.is_received || !state.pending.is_empty() {
            return None;
        }
        let position = state.position(self.epoch());
        let (mut kept, mut at) = (Vec::new(), state.start.max(state.end.saturating_sub(most)));
        while at < state.end {
            at += state.copy(at, state.end, &mut kept);
        }
        state.ring = Some(make(&position, &kept));
        debug_assert_eq!(state.ring.as_ref().map(Ring::end), Some(position.end));
        self.has_ring.store(true, Relaxed);
        Some(position)
    }

    /// Returns true if a commit has not ended. While all shards are locked: nobody knows whether
    /// it counts, and the stream's end is not that of the data.
    pub fn has_pending(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// Returns the bytes that the ring takes, if there is one.
    pub fn ring_size(&self) -> Option<u64> {
        self.state().ring.as_ref().map(Ring::size)
    }

    /// Ends the use of the ring.
    pub fn end_ring(&self) {
        self.drop_ring(&mut self.state());
    }

    /// Drops a ring whose medium does not take what is written: the next commit is at no place.
    pub(super) fn drop_failed_ring(&self, state: &mut State) {
        if state.ring.as_ref().is_some_and(Ring::has_failed) {
            self.drop_ring(state);
        }
    }

    pub(super) fn drop_ring(&self, state: &mut State) {
        self.has_ring.store(false, Relaxed);
        state.ring = None;
    }

    /// Drops all bytes, all places, and the ring.
    pub(super) fn forget(&self, state: &mut State) {
        self.drop_ring(state);
        state.forget();
    }

    /// Reserves a place for commands, as [`Stream::append`] appends them, for a commit that will
    /// stage the place's [end](Reserved::end) in shard `home`. Their shards are locked, and stay
    /// so until the commit has ended. Returns none if there is no ring.
    pub fn reserve(
        &self,
        home: usize,
        first: u32,
        last: u32,
        commands: &[u8],
    ) -> Option<Reserved<'_>> {
        let home = u16::try_from(home).ok().filter(|home| *home < u16::MAX)?;
        let mut state = self.state();
        let number = state.reserve(home, first, last, commands)?;
        self.drop_failed_ring(&mut state);
        Some(Reserved { stream: self, number, end: state.end, is_open: true })
    }

    /// Ends a commit in one way or the other. Returns false if its place was forgotten meanwhile.
    fn end_commit(&self, number: u64, has_committed: bool) -> bool {
        let mut state = self.state();
        let Ok(at) = state.pending.binary_search_by_key(&number, |pending| pending.number) else {
            return false;
        };
        if has_committed && state.is_received {
            // This server became a replica meanwhile: its primary does not have the change.
            self.skip(state);
            return true;
        }
        if has_committed {
            let end = state.pending[at].end;
            if self.changed.load(Acquire) < end {
                self.changed.store(end, Release);
            }
            state.ring.iter_mut().for_each(|ring| ring.note_committed(end));
            state.note_selected(at);
        } else {
            state.make_void(at);
            self.drop_failed_ring(&mut state);
        }
        state.pending[at].has_ended = true;
        let shown = state.shown();
        while state.pending.front().is_some_and(|pending| pending.has_ended) {
            state.pending.pop_front();
        }
        if state.shown() > shown {
            self.show(state);
        }
        true
    }
}

impl Reserved<'_> {
    /// Returns the offset of its end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Shows it, since the commit was made. Returns the offset of its end.
    pub fn publish(mut self) -> u64 {
        self.is_open = false;
        self.stream.end_commit(self.number, true);
        self.end
    }

    /// Makes it padding, since the commit was refused.
    pub fn make_void(mut self) {
        self.is_open = false;
        self.stream.end_commit(self.number, false);
    }

    /// Leaves it as it is, since nobody knows whether the commit counts: nothing is shown any more.
    pub fn leave_open(mut self) {
        self.is_open = false;
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let state = self.stream.state();
            if state.pending.iter().any(|pending| pending.number == self.number) {
                self.stream.skip(state);
            }
        }
    }
}

impl State {
    /// Returns the offset up to which the stream is shown.
    pub(super) fn shown(&self) -> u64 {
        let first = self.pending.front().filter(|_| FaultPoint::HideUnfinished.is_enabled());
        first.map_or(self.end, |pending| pending.start)
    }

    /// Appends what belongs to no commit, or to one that has ended. It is durable in the ring.
    pub(super) fn append(&mut self, parts: &[&[u8]]) {
        let Self { ring, pending, .. } = self;
        if let Some(ring) = ring {
            ring.append(None, parts, unfinished(pending));
            ring.fence();
        }
        parts.iter().for_each(|part| self.push(part));
    }

    fn reserve(&mut self, home: u16, first: u32, last: u32, commands: &[u8]) -> Option<u64> {
        let Self { ring, pending, .. } = self;
        let ring = ring.as_mut()?;
        let select = if self.db == Some(first) { String::new() } else { select(first) };
        let before = PING.repeat(pings_before(select.len() + commands.len()));
        let parts = [&before, select.as_bytes(), commands];
        let written = ring.append(Some(home), &parts, unfinished(pending));
        let start = self.end;
        parts.iter().for_each(|part| self.push(part));
        let selects = (self.db != Some(last)).then_some(last);
        if selects.is_some() {
            self.db = match FaultPoint::SelectAfterUnfinished.is_enabled() {
                true => None,
                false => selects,
            };
        }
        let (number, end) = (self.next_number, self.end);
        self.next_number += 1;
        self.pending.push_back(Pending { number, start, end, written, has_ended: false, selects });
        Some(number)
    }

    /// Notes which database is selected at the end, if that is known now that a commit was made:
    /// whatever becomes of those after it, they select the same.
    fn note_selected(&mut self, at: usize) {
        let Pending { end, selects, .. } = self.pending[at];
        let mut later = self.pending.range(at + 1..);
        let is_known = later.all(|later| later.selects.is_none() || later.selects == selects);
        if self.db.is_none() && selects.is_some() && end > self.selected_at && is_known {
            self.db = selects;
        }
    }

    /// Overwrites a pending place by padding.
    fn make_void(&mut self, at: usize) {
        let Pending { start, end, written, .. } = self.pending[at];
        if let Some(ring) = &mut self.ring {
            ring.void(written);
        }
        let padding = padding((end - start) as usize).unwrap_or_default();
        debug_assert_eq!(padding.len() as u64, end - start, "its length was chosen so");
        let (mut at, mut bytes) = ((start - self.start) as usize, &padding[..]);
        while !bytes.is_empty() {
            let Some(block) = self.blocks.get_mut(at / BLOCK) else { return };
            let within = at % BLOCK;
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - within));
            block[within..within + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), later);
        }
    }
}

/// Returns the places of commits that have not ended.
fn unfinished(pending: &std::collections::VecDeque<Pending>) -> impl Iterator<Item = Written> {
    pending.iter().filter(|pending| !pending.has_ended).map(|pending| pending.written)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Id;
    use crate::ring::{Beginning, LEAST_SIZE, Medium};

    /// It fails after as many bytes.
    struct Nothing(usize);

    impl Medium for Nothing {
        fn write(&mut self, _: u64, bytes: &[u8]) {
            self.0 = self.0.saturating_sub(bytes.len());
        }
        fn write_back(&mut self, _: u64, _: usize) {}
        fn fence(&mut self) {}
        fn has_failed(&self) -> bool {
            self.0 == 0
        }
    }

    fn stream() -> Arc<Stream> {
        with_medium(usize::MAX)
    }

    fn with_medium(bytes: usize) -> Arc<Stream> {
        let stream = Arc::new(Stream::new(Id::NONE, 1000));
        stream.switch_on();
        stream.append_free(b"earlier");
        let ring = |position: &Position, kept: &[u8]| {
            assert_eq!(kept, b"lier");
            let Position { id, end: begun, .. } = *position;
            let beginning = Beginning { id, begun, kept, boot: [0; 16], key: 1 };
            Ring::begin(Box::new(Nothing(bytes)), LEAST_SIZE, &beginning)
        };
        assert!(stream.begin_ring(4, ring).is_some());
        stream
    }

    /// A command of 26 bytes.
    const SET: &[u8] = b"SET, as far as it matters,";

    fn rest(cursor: &mut super::super::Cursor) -> String {
        let mut all = Vec::new();
        while cursor.read(u64::MAX, &mut all).expect("a place") > 0 {}
        String::from_utf8(all).expect("a text")
    }

    fn set(number: usize) -> Vec<u8> {
        format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n{number}\r\n").into_bytes()
    }

    #[test]
    fn nothing_is_shown_behind_a_commit_that_has_not_ended() {
        let stream = stream();
        let (_, mut cursor) = stream.cut();
        let first = stream.reserve(0, 0, 0, &set(1)).expect("a ring");
        let second = stream.reserve(1, 0, 0, &set(2)).expect("a ring");
        stream.append_free(PING);
        let end = stream.appended();
        let second_end = second.publish();
        assert_eq!((stream.end(), stream.changed()), (7, second_end));
        assert_eq!((rest(&mut cursor), end - second_end), (String::new(), 14));
        assert!(stream.resume(Id::NONE, 8).is_none());
        first.publish();
        assert_eq!((stream.end(), stream.changed()), (end, second_end));
        let zero = select(0).into_bytes();
        let expected = [&zero, &set(1)[..], &zero, &set(2), PING].concat();
        assert_eq!(rest(&mut cursor).as_bytes(), expected);
        // Now that they have ended, the database is known.
        stream.reserve(0, 0, 0, &set(3)).expect("a ring").publish();
        assert_eq!(rest(&mut cursor).as_bytes(), set(3));
    }

    #[test]
    fn a_medium_that_fails_ends_the_ring_and_not_the_stream() {
        for is_free in [false, true] {
            let stream = with_medium(10_000);
            let (_, mut cursor) = stream.cut();
            let large = vec![b'x'; 10_000];
            if is_free {
                stream.append_free(&large);
            } else {
                stream.reserve(0, 0, 0, &large).expect("a ring").publish();
            }
            assert!(!stream.reserves() && stream.ring_size().is_none());
            assert!(rest(&mut cursor).len() >= 10_000);
            assert!(stream.reserve(0, 0, 0, SET).is_none());
        }
    }

    #[test]
    fn a_commit_that_fails_leaves_padding() {
        let stream = stream();
        let (_, mut cursor) = stream.cut();
        stream.append(0, 0, SET);
        let large = vec![b'x'; 2 * BLOCK];
        for commands in [&b"*1\r\n$7\r\nFLUSHDB\r\n"[..], SET, &set(1), &large] {
            let before = stream.appended();
            stream.reserve(0, 0, 0, commands).expect("a ring").make_void();
            let len = (stream.end() - before) as usize;
            let text = rest(&mut cursor);
            assert!(text.ends_with(&String::from_utf8(padding(len).expect("padding")).unwrap()));
        }
        assert_eq!(stream.changed(), 7 + 49, "no data was changed");
    }

    #[test]
    fn what_follows_a_database_that_may_not_be_selected_selects_its_own() {
        let stream = stream();
        let (_, mut cursor) = stream.cut();
        stream.append(3, 3, SET);
        let other = stream.reserve(0, 5, 5, SET).expect("a ring");
        let after = stream.reserve(1, 5, 5, SET).expect("a ring");
        other.make_void();
        after.publish();
        let text = rest(&mut cursor);
        assert!(text.starts_with(&select(3)) && text.ends_with("SET, as far as it matters,"));
        assert_eq!(text.matches(&select(5)).count(), 1, "{text}");
        assert_eq!(stream.position().db, Some(5));
        stream.reserve(0, 6, 6, SET).expect("a ring").make_void();
        rest(&mut cursor);
        stream.append(6, 6, SET);
        assert!(rest(&mut cursor).starts_with(&select(6)));
    }

    #[test]
    fn a_commit_that_ends_after_the_history_changes_nothing_of_the_next() {
        let stream = stream();
        let reserved = stream.reserve(0, 0, 0, SET).expect("a ring");
        stream.adopt(Id::NONE, 500, None);
        assert!(!stream.reserves());
        reserved.publish();
        assert_eq!((stream.end(), stream.appended()), (500, 500));
    }

    #[test]
    fn a_commit_that_ends_on_a_replica_makes_every_replica_begin_again() {
        for drops in [false, true] {
            let stream = stream();
            let epoch = stream.epoch();
            let reserved = stream.reserve(0, 0, 0, SET).expect("a ring");
            if !drops {
                stream.set_received(true);
                assert!(!stream.append_received(epoch, 0, b"too early"));
                reserved.publish();
            } else {
                drop(reserved);
            }
            assert_ne!(stream.epoch(), epoch);
            assert!(!stream.reserves() && stream.reserve(0, 0, 0, SET).is_none());
        }
    }

    #[test]
    fn nothing_more_is_shown_if_nobody_knows_whether_a_commit_counts() {
        let stream = stream();
        let (_, mut cursor) = stream.cut();
        stream.reserve(0, 0, 0, SET).expect("a ring").leave_open();
        stream.append_free(PING);
        assert_eq!((rest(&mut cursor), stream.end()), (String::new(), 7));
        assert!(stream.has_pending(), "a dump that is made now is at no place");
    }
}
