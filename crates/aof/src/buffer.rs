//! The appended bytes that are not yet written out, under the one short lock that all threads
//! share.
//!
//! Offsets count the bytes appended since the log was opened, across files. A cut divides the bytes
//! of the present incremental file from those of the next one.

use crate::fault_points::FaultPoint;
use crate::record::{encode_select, encode_timestamp, unix_seconds};

/// The appended bytes that are not yet written out.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// The offset of the first byte.
    start: u64,
    /// The database that the last command ran on; unknown at the beginning of a file.
    db: Option<u32>,
    /// The offset at which the next file begins.
    cut: Option<u64>,
    /// The last timestamp that was written to this file, in unix seconds; none if there is none
    /// yet.
    timestamp: Option<u64>,
    /// Whether timestamps are written.
    has_timestamps: bool,
    /// Whether the log is switched off: appended commands are dropped, and are not part of it.
    muted: bool,
    /// Whether the log has failed: nothing is kept any more.
    closed: bool,
}

/// The bytes that a writer takes out of the buffer.
pub(crate) struct Taken {
    pub(crate) bytes: Vec<u8>,
    /// How many of them still belong to the present file, if there is a next one.
    pub(crate) cut: Option<usize>,
}

impl Buffer {
    /// Returns the offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Appends encoded commands, the first of which needs `first` selected.
    pub(crate) fn append(&mut self, first: u32, last: u32, commands: &[u8]) -> u64 {
        if self.closed {
            self.start += commands.len() as u64;
            return self.end();
        }
        if self.muted {
            return self.end();
        }
        if self.has_timestamps {
            self.write_timestamp(unix_seconds());
        }
        if self.db != Some(first) {
            encode_select(&mut self.bytes, first);
        }
        self.db = Some(last);
        self.bytes.extend_from_slice(commands);
        self.end()
    }

    /// Writes the time of the next commands, unless it was written in the same second.
    fn write_timestamp(&mut self, now: u64) {
        if self.timestamp.is_none_or(|last| last < now) {
            encode_timestamp(&mut self.bytes, now);
            self.timestamp = Some(now);
        }
    }

    /// Sets whether the times of commands are written from now on.
    pub(crate) fn set_timestamps(&mut self, has_timestamps: bool) {
        self.has_timestamps = has_timestamps;
    }

    /// Returns true if the times of commands are written.
    pub(crate) fn has_timestamps(&self) -> bool {
        self.has_timestamps
    }

    /// Ends the file: later commands belong to the next one.
    pub(crate) fn cut(&mut self) -> u64 {
        if FaultPoint::SelectAfterCut.is_enabled() {
            self.db = None;
        }
        self.timestamp = None;
        let end = self.end();
        self.cut = Some(end);
        end
    }

    /// Sets whether later commands are dropped.
    pub(crate) fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// Drops the buffered bytes, and all later commands. Returns the offset after the dropped
    /// bytes.
    pub(crate) fn mute_and_drop(&mut self) -> u64 {
        self.start = self.end();
        self.bytes.clear();
        self.cut = None;
        self.db = None;
        self.timestamp = None;
        self.muted = true;
        self.start
    }

    /// Returns true if appended commands are dropped.
    pub(crate) fn is_muted(&self) -> bool {
        self.muted
    }

    /// Takes everything out; the next appends fill `space`.
    pub(crate) fn take(&mut self, space: Vec<u8>) -> Taken {
        let cut = self.cut.take().map(|at| (at - self.start) as usize);
        self.start = self.end();
        Taken { bytes: std::mem::replace(&mut self.bytes, space), cut }
    }

    /// Puts back bytes that could not be written: they begin at the offset `from` and end where
    /// they were taken.
    pub(crate) fn put_back(&mut self, from: u64, mut bytes: Vec<u8>, cut: Option<u64>) {
        if self.closed {
            return;
        }
        debug_assert_eq!(from + bytes.len() as u64, self.start, "they end where the buffer begins");
        bytes.extend_from_slice(&self.bytes);
        self.bytes = bytes;
        self.start = from;
        self.cut = cut.or(self.cut);
    }

    /// Returns the waiting bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if there is nothing to do for a writer.
    pub(crate) fn is_idle(&self) -> bool {
        self.bytes.is_empty() && self.cut.is_none()
    }

    /// Keeps nothing any more; offsets still grow, so that none of them counts as durable.
    pub(crate) fn close(&mut self) {
        self.start = self.end();
        self.bytes = Vec::new();
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_is_where_the_database_changes() {
        let mut buffer = Buffer::default();
        buffer.append(0, 0, b"a");
        buffer.append(0, 2, b"b");
        buffer.append(2, 2, b"c");
        let end = buffer.append(0, 0, b"d");
        let text = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nabc*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nd";
        let taken = buffer.take(Vec::new());
        assert_eq!(String::from_utf8_lossy(&taken.bytes), text);
        assert_eq!((end, taken.cut), (text.len() as u64, None));
    }

    #[test]
    fn a_timestamp_is_written_once_a_second_and_in_each_file() {
        let mut buffer = Buffer::default();
        for (second, text) in [(7, "#TS:7\r\n"), (7, ""), (6, ""), (9, "#TS:9\r\n")] {
            buffer.write_timestamp(second);
            assert_eq!(String::from_utf8_lossy(&buffer.take(Vec::new()).bytes), text);
        }
        buffer.cut();
        buffer.write_timestamp(9);
        assert_eq!(buffer.bytes(), b"#TS:9\r\n");
    }

    #[test]
    fn a_timestamp_comes_before_select() {
        let mut buffer = Buffer::default();
        buffer.set_timestamps(true);
        buffer.append(0, 0, b"a");
        let text = String::from_utf8(buffer.take(Vec::new()).bytes).unwrap();
        let (timestamp, rest) = text.split_once("\r\n").unwrap();
        assert!(timestamp.starts_with("#TS:"), "{text}");
        assert_eq!(rest, "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\na");
    }

    #[test]
    fn a_cut_divides_and_begins_with_select() {
        let mut buffer = Buffer::default();
        let before = buffer.append(0, 0, b"a");
        assert_eq!(buffer.cut(), before);
        buffer.append(0, 0, b"b");
        let taken = buffer.take(Vec::new());
        assert_eq!(taken.cut, Some(before as usize));
        assert!(taken.bytes[before as usize..].starts_with(b"*2\r\n$6\r\nSELECT"));
        assert!(buffer.is_idle());
        assert_eq!(buffer.end(), taken.bytes.len() as u64);
    }

    #[test]
    fn what_is_put_back_comes_before_what_was_appended_meanwhile() {
        let mut buffer = Buffer::default();
        buffer.append(0, 0, b"a");
        let cut = buffer.cut();
        buffer.append(0, 0, b"b");
        let all = buffer.take(Vec::new()).bytes;
        let end = buffer.append(0, 0, b"c");
        buffer.put_back(0, all.clone(), Some(cut));
        assert_eq!((buffer.end(), buffer.len() as u64), (end, end));
        let again = buffer.take(Vec::new());
        assert_eq!(again.bytes, [&all, &b"c"[..]].concat());
        assert_eq!(again.cut, Some(cut as usize));
        buffer.put_back(cut, again.bytes[cut as usize..].to_vec(), None);
        assert_eq!(buffer.take(Vec::new()).bytes, again.bytes[cut as usize..]);
    }
}
