//! The commands that create a key, as a client sends them: like a rewritten log of Redis.
//!
//! Elements of a collection are in commands of bounded size.

use std::io::{self, Write};

use rdb::{Part, StreamId};

use super::socket::pack;
use super::{Key, WriteError};
use crate::dump::LONGEST;

/// Maximum number of elements in one command.
pub const ELEMENTS: usize = 64;
/// Maximum number of bytes of elements in one command.
pub const BYTES: usize = 64 << 10;

/// Writes commands, and keeps track of the selected database.
#[derive(Debug, Default)]
pub(super) struct Commands {
    selected: Option<u64>,
    /// The command that elements are added to.
    pending: Vec<Vec<u8>>,
    elements: usize,
    bytes: usize,
    packed: Vec<u8>,
    /// The consumer group and the consumer that the next part belongs to.
    group: Vec<u8>,
    consumer: Vec<u8>,
}

impl Commands {
    /// Writes the command that loads a function library.
    pub(super) fn library(&mut self, out: &mut dyn Write, source: &[u8]) -> io::Result<()> {
        self.write(out, &[b"FUNCTION", b"LOAD", source])
    }

    /// Writes the commands that create a key.
    pub(super) fn key(&mut self, out: &mut dyn Write, key: &Key) -> Result<(), WriteError> {
        let (kind, mut source) = rdb::payload::open(&key.payload, LONGEST)?;
        if self.selected != Some(key.database) {
            self.write(out, &[b"SELECT", key.database.to_string().as_bytes()])?;
            self.selected = Some(key.database);
        }
        rdb::read_value(&mut source, kind, |part| self.part(out, &key.name, part))?;
        self.flush(out)?;
        if let Some(time) = key.expires {
            self.write(out, &[b"PEXPIREAT", &key.name, time.to_string().as_bytes()])?;
        }
        Ok(())
    }

    fn part(&mut self, out: &mut dyn Write, key: &[u8], part: Part<'_>) -> Result<(), WriteError> {
        match part {
            Part::String(value) => self.write(out, &[b"SET", key, value])?,
            Part::Element(element) => self.add(out, b"RPUSH", key, &[element])?,
            Part::Member(member) => self.add(out, b"SADD", key, &[member])?,
            Part::Scored(member, score) => {
                self.add(out, b"ZADD", key, &[score.to_string().as_bytes(), member])?;
            }
            Part::Field(field, value, time) => {
                self.add(out, b"HSET", key, &[field, value])?;
                if let Some(time) = time {
                    self.flush(out)?;
                    let time = time.to_string();
                    let words = [b"HPEXPIREAT", key, time.as_bytes(), b"FIELDS", b"1", field];
                    self.write(out, &words)?;
                }
            }
            part => self.stream(out, key, part)?,
        }
        Ok(())
    }

    fn stream(&mut self, out: &mut dyn Write, key: &[u8], part: Part<'_>) -> io::Result<()> {
        match part {
            Part::Entry(id, words) => {
                let id = id_text(id);
                let head: [&[u8]; 3] = [b"XADD", key, id.as_bytes()];
                self.write(out, &[&head, words].concat())
            }
            Part::Stream { len, last, added, deleted } => {
                if len == 0 {
                    self.empty_stream(out, key, last)?;
                }
                // XSETID refuses a deleted ID that is greater than the last ID that it sets, but
                // keeps one that was set before.
                let most = id_text(last.max(deleted));
                let is_lower = last < deleted;
                let (last, deleted) = (id_text(last), id_text(deleted));
                let added = added.to_string();
                let words: [&[u8]; 7] = [
                    b"XSETID",
                    key,
                    most.as_bytes(),
                    b"ENTRIESADDED",
                    added.as_bytes(),
                    b"MAXDELETEDID",
                    deleted.as_bytes(),
                ];
                self.write(out, &words)?;
                if is_lower { self.write(out, &[b"XSETID", key, last.as_bytes()]) } else { Ok(()) }
            }
            Part::Group { name, last, read } => {
                self.group = name.to_vec();
                let (last, read) = (id_text(last), read.map(|read| read.to_string()));
                let mut words: Vec<&[u8]> = vec![b"XGROUP", b"CREATE", key, name, last.as_bytes()];
                if let Some(read) = &read {
                    words.extend([b"ENTRIESREAD", read.as_bytes()]);
                }
                self.write(out, &words)
            }
            Part::Consumer { name, .. } => {
                self.consumer = name.to_vec();
                let group = std::mem::take(&mut self.group);
                let done = self.write(out, &[b"XGROUP", b"CREATECONSUMER", key, &group, name]);
                self.group = group;
                done
            }
            Part::Pending { id, delivered, count } => {
                let (id, delivered, count) =
                    (id_text(id), delivered.to_string(), count.to_string());
                let (group, consumer) = (self.group.clone(), self.consumer.clone());
                let words: [&[u8]; 12] = [
                    b"XCLAIM",
                    key,
                    &group,
                    &consumer,
                    b"0",
                    id.as_bytes(),
                    b"TIME",
                    delivered.as_bytes(),
                    b"RETRYCOUNT",
                    count.as_bytes(),
                    b"JUSTID",
                    b"FORCE",
                ];
                self.write(out, &words)
            }
            _ => Err(io::Error::other("a part of a value that is not known")),
        }
    }

    /// Creates the key of a stream without entries, by adding one that is trimmed at once.
    fn empty_stream(&mut self, out: &mut dyn Write, key: &[u8], last: StreamId) -> io::Result<()> {
        let first = StreamId { ms: last.ms, seq: last.seq.max(u64::from(last.ms == 0)) };
        let first = id_text(first);
        self.write(out, &[b"XADD", key, b"MAXLEN", b"0", first.as_bytes(), b"x", b"y"])
    }

    /// Adds words to the pending command; writes it first if it is large.
    fn add(
        &mut self,
        out: &mut dyn Write,
        command: &[u8],
        key: &[u8],
        words: &[&[u8]],
    ) -> io::Result<()> {
        if self.elements >= ELEMENTS || self.bytes >= BYTES {
            self.flush(out)?;
        }
        if self.pending.is_empty() {
            self.pending = vec![command.to_vec(), key.to_vec()];
        }
        self.pending.extend(words.iter().map(|word| word.to_vec()));
        self.elements += 1;
        self.bytes += words.iter().map(|word| word.len()).sum::<usize>();
        Ok(())
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        (self.elements, self.bytes) = (0, 0);
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let words: Vec<&[u8]> = pending.iter().map(Vec::as_slice).collect();
        self.write(out, &words)
    }

    fn write(&mut self, out: &mut dyn Write, words: &[&[u8]]) -> io::Result<()> {
        self.packed.clear();
        pack(words, &mut self.packed);
        out.write_all(&self.packed)
    }
}

pub(super) fn id_text(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_whose_last_id_was_set_back_is_one_that_a_server_takes() {
        let (mut out, id) = (Vec::new(), |ms| StreamId { ms, seq: 4 });
        let part = Part::Stream { len: 0, last: id(3), added: 9, deleted: id(70) };
        Commands::default().stream(&mut out, b"k", part).expect("memory takes everything");
        let mut expected = Vec::new();
        for words in [
            ["XADD", "k", "MAXLEN", "0", "3-4", "x", "y"].as_slice(),
            &["XSETID", "k", "70-4", "ENTRIESADDED", "9", "MAXDELETEDID", "70-4"],
            &["XSETID", "k", "3-4"],
        ] {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            pack(&words, &mut expected);
        }
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
