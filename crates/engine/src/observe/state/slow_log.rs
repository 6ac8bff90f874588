//! The slow log: the latest commands that took longer than `slowlog-log-slower-than`. The logs of
//! large requests and of large replies (COMMANDLOG) are of the same kind, with bytes in place of
//! times.
//!
//! Arguments are kept short, as Redis keeps them: 32 words of 128 bytes. Passwords are not kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::session::client::Client;

const MAX_WORDS: usize = 32;
const MAX_WORD: usize = 128;
/// The address in entries of commands that scripts call, as in Redis.
const OF_SCRIPT: &str = "?:0";

pub struct Entry {
    pub id: u64,
    pub unix_s: u64,
    /// Microseconds, or bytes.
    pub value: u64,
    pub words: Vec<Vec<u8>>,
    pub addr: String,
    pub name: Vec<u8>,
}

#[derive(Default)]
pub struct Ring {
    pub entries: VecDeque<Entry>,
    next: u64,
}

/// The slow log.
pub struct SlowLog {
    ring: Mutex<Ring>,
    /// The time, or size, from which on a command is logged; negative for never.
    slower_than: AtomicI64,
    max_len: AtomicUsize,
}

impl SlowLog {
    /// From how many microseconds on a command is entered, unless set.
    pub const SLOWER_THAN_US: i64 = 10_000;

    /// From how many bytes on a request or a reply is entered, unless set.
    pub const LARGER_THAN: i64 = 1 << 20;

    /// How many entries are kept, unless set.
    pub const MAX_LEN: usize = 128;

    /// Returns a log of commands by size, from 1 MiB on unless set otherwise.
    pub(crate) fn of_sizes() -> SlowLog {
        SlowLog { slower_than: AtomicI64::new(SlowLog::LARGER_THAN), ..SlowLog::default() }
    }
}

impl Default for SlowLog {
    fn default() -> SlowLog {
        SlowLog {
            ring: Mutex::default(),
            slower_than: AtomicI64::new(SlowLog::SLOWER_THAN_US),
            max_len: AtomicUsize::new(SlowLog::MAX_LEN),
        }
    }
}

impl SlowLog {
    /// Sets the microseconds (`slowlog-log-slower-than`), or bytes, from which on a command is
    /// logged; negative for never.
    pub fn set_slower_than(&self, micros: i64) {
        self.slower_than.store(micros, Relaxed);
    }

    /// Returns `slowlog-log-slower-than`.
    pub fn slower_than(&self) -> i64 {
        self.slower_than.load(Relaxed)
    }

    /// Sets `slowlog-max-len`.
    pub fn set_max_len(&self, entries: usize) {
        self.max_len.store(entries, Relaxed);
    }

    /// Returns true if an execution that took this long is logged.
    #[inline]
    pub(crate) fn is_slow(&self, nanos: u64) -> bool {
        u64::try_from(self.slower_than()).is_ok_and(|limit| nanos / 1000 >= limit)
    }

    /// Returns true if a command with this many bytes is logged.
    #[inline]
    pub(crate) fn is_large(&self, bytes: usize) -> bool {
        u64::try_from(self.slower_than()).is_ok_and(|limit| bytes as u64 >= limit)
    }

    /// Adds a command that `client` sent, or a script called, and that ended at `unix_s`.
    pub(crate) fn enter(&self, client: Option<&Client>, words: &[&[u8]], unix_s: u64, value: u64) {
        self.enter_shortened(client, shortened(words), unix_s, value);
    }

    fn enter_shortened(
        &self,
        client: Option<&Client>,
        words: Vec<Vec<u8>>,
        unix_s: u64,
        value: u64,
    ) {
        let (addr, name) = match client {
            Some(client) => {
                let name = client.name.lock().unwrap_or_else(PoisonError::into_inner).clone();
                (client.peer.addr.clone(), name)
            }
            None => (OF_SCRIPT.to_owned(), Default::default()),
        };
        let mut ring = self.ring();
        let id = ring.next;
        ring.next += 1;
        ring.entries.push_front(Entry { id, unix_s, value, words, addr, name });
        ring.entries.truncate(self.max_len.load(Relaxed));
    }

    /// Locks the entries.
    pub fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that blocked: it is logged when it has its reply, as in Redis. Its waiting time does
/// not count.
pub struct SlowBlock {
    words: Vec<Vec<u8>>,
    nanos: u64,
}

impl SlowBlock {
    /// Makes the entry of a command that took this long before it waited.
    pub(crate) fn new(words: &[&[u8]], nanos: u64) -> SlowBlock {
        SlowBlock { words: shortened(words), nanos }
    }

    /// Adds the command, which `client` sent and which ended at `unix_s`.
    pub(crate) fn enter(self, log: &SlowLog, client: &Client, unix_s: u64) {
        if log.is_slow(self.nanos) {
            log.enter_shortened(Some(client), self.words, unix_s, self.nanos / 1000);
        }
    }
}

fn shortened(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if words.len() > MAX_WORDS { MAX_WORDS - 1 } else { words.len() };
    let mut out: Vec<Vec<u8>> = words[..kept]
        .iter()
        .map(|word| match word.len().checked_sub(MAX_WORD) {
            None | Some(0) => word.to_vec(),
            Some(more) => {
                let mut short = word[..MAX_WORD].to_vec();
                short.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
                short
            }
        })
        .collect();
    if words.len() > kept {
        out.push(format!("... ({} more arguments)", words.len() - kept).into_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn words_are_kept_short() {
        let long = vec![b'x'; 200];
        let kept = shortened(&[b"SET", &long]);
        assert!(kept[1].ends_with(b"... (72 more bytes)") && kept[1].len() == 128 + 19);
        let many: Vec<&[u8]> = vec![b"a"; 40];
        let kept = shortened(&many);
        assert_eq!(kept.len(), 32);
        assert_eq!(kept[31], b"... (9 more arguments)");
    }
}
