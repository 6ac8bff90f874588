//! The slow log: the latest commands that took longer than `slowlog-log-slower-than`.
//!
//! Arguments are kept short, as Redis keeps them: 32 words of 128 bytes. Passwords are not kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::{help, redacted};
use crate::call::{Call, Run};
use crate::failure::Done;
use crate::spec::*;

const MAX_WORDS: usize = 32;
const MAX_WORD: usize = 128;

struct Entry {
    id: u64,
    unix_s: u64,
    micros: u64,
    words: Vec<Vec<u8>>,
    addr: String,
    name: Vec<u8>,
}

#[derive(Default)]
struct Ring {
    entries: VecDeque<Entry>,
    next: u64,
}

/// The slow log.
pub struct SlowLog {
    ring: Mutex<Ring>,
    slower_than: AtomicI64,
    max_len: AtomicUsize,
}

impl Default for SlowLog {
    fn default() -> SlowLog {
        SlowLog {
            ring: Mutex::default(),
            slower_than: AtomicI64::new(10_000),
            max_len: AtomicUsize::new(128),
        }
    }
}

impl SlowLog {
    /// Sets `slowlog-log-slower-than`, in microseconds; negative for never.
    pub fn set_slower_than(&self, micros: i64) {
        self.slower_than.store(micros, Relaxed);
    }

    /// `slowlog-log-slower-than`.
    pub(crate) fn slower_than(&self) -> i64 {
        self.slower_than.load(Relaxed)
    }

    /// Sets `slowlog-max-len`.
    pub fn set_max_len(&self, entries: usize) {
        self.max_len.store(entries, Relaxed);
    }

    /// Whether an execution that took so long is logged.
    #[inline]
    pub(super) fn is_slow(&self, nanos: u64) -> bool {
        u64::try_from(self.slower_than()).is_ok_and(|limit| nanos / 1000 >= limit)
    }

    pub(super) fn enter(&self, call: &Call<'_>, micros: u64) {
        let words = shortened(&redacted(call));
        let client = &call.session.client;
        let name = client.name.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut ring = self.ring();
        let id = ring.next;
        ring.next += 1;
        let addr = client.peer.addr.clone();
        let unix_s = call.now_ms() / 1000;
        ring.entries.push_front(Entry { id, unix_s, micros, words, addr, name });
        ring.entries.truncate(self.max_len.load(Relaxed));
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
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

pub(crate) const SLOWLOG: CommandSpec = CommandSpec {
    name: "slowlog",
    summary: "A container for slow log commands",
    complexity: "Depends on subcommand.",
    since: "2.2.12",
    group: Group::Server,
    arity: -2,
    subs: &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
    ..CommandSpec::EMPTY
};

const SLOWLOG_GET: CommandSpec = CommandSpec {
    name: "get",
    summary: "Get the slow log's entries",
    complexity: "O(N) where N is the number of entries returned",
    since: "2.2.12",
    group: Group::Server,
    arity: -2,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
    args: &[integer("count").optional()],
    run: Run::Session(slowlog_get),
    ..CommandSpec::EMPTY
};

const SLOWLOG_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(slowlog_help),
    ..CommandSpec::EMPTY
};

const SLOWLOG_LEN: CommandSpec = CommandSpec {
    name: "len",
    summary: "Get the slow log's length",
    complexity: "O(1)",
    since: "2.2.12",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    run: Run::Session(slowlog_len),
    ..CommandSpec::EMPTY
};

const SLOWLOG_RESET: CommandSpec = CommandSpec {
    name: "reset",
    summary: "Clear all entries from the slow log",
    complexity: "O(N) where N is the number of entries in the slowlog",
    since: "2.2.12",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    run: Run::Session(slowlog_reset),
    ..CommandSpec::EMPTY
};

fn slowlog_get(call: &mut Call<'_>) -> Done {
    let count = if call.args.len() > 2 { call.int(2).ok() } else { Some(10) };
    let count = count.filter(|count| *count >= -1);
    let count = count.ok_or("ERR count should be greater than or equal to -1")?;
    let log = call.engine.admin().slow_log.ring();
    let count = if count < 0 { log.entries.len() } else { log.entries.len().min(count as usize) };
    call.out.array(count);
    for entry in log.entries.iter().take(count) {
        call.out.array(6);
        call.out.integer(entry.id as i64);
        call.out.integer(entry.unix_s as i64);
        call.out.integer(entry.micros as i64);
        call.out.array(entry.words.len());
        entry.words.iter().for_each(|word| call.out.bulk(word));
        call.out.bulk(&entry.addr);
        call.out.bulk(&entry.name);
    }
    Ok(())
}

fn slowlog_len(call: &mut Call<'_>) -> Done {
    let len = call.engine.admin().slow_log.ring().entries.len();
    call.out.integer(len as i64);
    Ok(())
}

fn slowlog_reset(call: &mut Call<'_>) -> Done {
    call.engine.admin().slow_log.ring().entries.clear();
    call.out.ok();
    Ok(())
}

fn slowlog_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
            "LEN",
            "    Return the length of the slowlog.",
            "RESET",
            "    Reset the slowlog.",
        ],
    )
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
