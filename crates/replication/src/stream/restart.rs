//! A history that outlives the process: a server whose data has a place in the stream begins there,
//! with an empty stream, or with the bytes before the place that were kept for it.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::{Position, Stream};
use crate::Id;

impl Stream {
    /// Continues, as a primary, what was there before the restart, under a new ID: replicas that
    /// had all of it, or all but some of the bytes in `kept`, which end there, go on, unless they
    /// have more than what is before `until`. The old ID would not do: another start from the same
    /// data could use offsets twice.
    pub fn continue_as_primary(&self, saved: &Position, kept: &[u8], until: u64, next: Id) {
        let second = Some((saved.id, until.min(saved.end)));
        self.begin_at(&Position { id: next, second, db: None, ..*saved }, kept, saved.second);
    }

    /// Continues, as a replica, where it was before the restart.
    pub fn continue_as_replica(&self, saved: &Position) {
        self.begin_at(saved, &[], None);
    }

    fn begin_at(&self, position: &Position, kept: &[u8], third: Option<(Id, u64)>) {
        let mut state = self.state();
        (state.id, state.second, state.third) = (position.id, position.second, third);
        (state.end, state.db) = (position.end - kept.len() as u64, position.db);
        self.next_epoch(&mut state);
        self.forget(&mut state);
        state.push(kept);
        self.changed.store(position.end, Release);
        self.end.store(position.end, Release);
        self.is_on.store(true, Relaxed);
        state.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn id(byte: u8) -> Id {
        Id::from_random([byte; 20])
    }

    fn saved() -> Position {
        let second = Some((id(9), 40));
        Position { id: id(1), second, end: 70, kept: 0, db: Some(3), epoch: 0 }
    }

    #[test]
    fn a_primary_continues_under_a_new_id_for_those_that_had_all() {
        let stream = Arc::new(Stream::new(id(0), 1000));
        stream.continue_as_primary(&saved(), b"", 70, id(2));
        assert!(stream.is_on());
        assert_eq!(stream.third(), Some((id(9), 40)));
        assert!(stream.resume(id(1), 69).is_none(), "the bytes are gone");
        assert!(stream.resume(id(1), 71).is_none(), "it has what was never here");
        assert!(stream.resume(id(9), 70).is_none());
        let (next, mut cursor) = stream.resume(id(1), 70).expect("it had all");
        assert_eq!(next, id(2));
        stream.append(3, 3, b"x");
        let mut bytes = Vec::new();
        assert_eq!(cursor.read(u64::MAX, &mut bytes), Ok(bytes.len() as u64));
        assert_eq!(bytes, b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\nx", "the database is selected again");
        assert!(stream.resume(id(1), 70).is_some());
        assert!(stream.resume(id(1), 71).is_none(), "that is of another start");
        assert!(stream.resume(id(2), 71).is_some());
    }

    #[test]
    fn a_primary_has_what_was_kept_for_replicas_that_are_behind() {
        let stream = Arc::new(Stream::new(id(0), 1000));
        stream.continue_as_primary(&saved(), b"0123456789", 68, id(2));
        assert_eq!(stream.end(), 70);
        assert!(stream.resume(id(1), 59).is_none());
        let (_, mut cursor) = stream.resume(id(1), 63).expect("it is kept");
        let mut bytes = Vec::new();
        assert_eq!(cursor.read(u64::MAX, &mut bytes), Ok(7));
        assert_eq!(bytes, b"3456789");
        assert!(stream.resume(id(1), 68).is_some());
        assert!(stream.resume(id(1), 69).is_none(), "nobody was sent that");
    }

    #[test]
    fn a_replica_continues_where_it_was() {
        let stream = Arc::new(Stream::new(id(0), 1000));
        stream.continue_as_replica(&saved());
        let position = stream.position();
        assert_eq!(Position { epoch: 0, ..position }, saved());
        assert!(stream.append_received(position.epoch, 3, b"SET"));
        assert!(stream.resume(id(1), 70).is_some_and(|(now, _)| now == id(1)));
        assert!(stream.resume(id(9), 40).is_none());
    }
}
