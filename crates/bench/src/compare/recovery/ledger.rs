//! Records what a server has acknowledged, and checks that it still has it.
//!
//! Every key belongs to one writer, which counts its versions upwards. A value depends only on its
//! key and version, so that every byte read back can be checked. Two numbers are kept for each key:
//! the last version acknowledged and the last version sent. After a crash the server must hold a
//! version between them: an older version or none is a loss, and anything else was never written.

use redis::{Cmd, cmd};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes at the head of a value: the key's number and the version.
const HEAD: usize = 24;

/// The form of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Of {
    /// A string for each key.
    Strings,
    /// One hash, with a field for each key.
    Hash,
    /// One sorted set, with a member for each key, whose score is its version.
    SortedSet,
}

/// The only key of a data set that is a hash or a sorted set.
const WHOLE: &str = "data";

/// The versions of all keys of a data set.
#[derive(Debug)]
pub(super) struct Ledger {
    of: Of,
    acknowledged: Vec<AtomicU32>,
    sent: Vec<AtomicU32>,
    value_bytes: usize,
}

/// The result of comparing a server with the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Keys that were compared.
    pub(super) checked: u64,
    /// Keys that are missing, or hold an older version than the last acknowledged one.
    pub(super) lost: u64,
    /// Keys that hold a value that was never written.
    pub(super) wrong: u64,
}

impl Ledger {
    /// Returns a ledger of this many keys, none of which has been written.
    pub(super) fn new(of: Of, keys: u64, value_bytes: usize) -> Ledger {
        let none = || (0..keys).map(|_| AtomicU32::new(0)).collect();
        Ledger { of, acknowledged: none(), sent: none(), value_bytes: value_bytes.max(HEAD) }
    }

    /// Returns how many keys there are.
    pub(super) fn keys(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Returns the size of a value in bytes.
    pub(super) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Returns the command that writes a version of a key.
    pub(super) fn set(&self, key: u64, version: u32, value: Vec<u8>) -> Cmd {
        let (mut command, name) = (Cmd::new(), Ledger::key(key));
        match self.of {
            Of::Strings => command.arg("SET").arg(name).arg(value),
            Of::Hash => command.arg("HSET").arg(WHOLE).arg(name).arg(value),
            Of::SortedSet => command.arg("ZADD").arg(WHOLE).arg(version).arg(name),
        };
        command
    }

    /// Returns the command that reads a key.
    pub(super) fn get(&self, key: u64) -> Cmd {
        let mut command = self.read("GET", "HGET", "ZSCORE");
        command.arg(Ledger::key(key));
        command
    }

    /// Returns the command that reads a range of keys.
    pub(super) fn get_all(&self, keys: Range<u64>) -> Cmd {
        let mut command = self.read("MGET", "HMGET", "ZMSCORE");
        command.arg(keys.map(Ledger::key).collect::<Vec<_>>());
        command
    }

    /// Returns the beginning of a command, given its name for each form of a data set.
    fn read(&self, strings: &str, hash: &str, sorted_set: &str) -> Cmd {
        match self.of {
            Of::Strings => cmd(strings),
            Of::Hash => cmd(hash).arg(WHOLE).clone(),
            Of::SortedSet => cmd(sorted_set).arg(WHOLE).clone(),
        }
    }

    /// Returns the name of a key, given its number from 0.
    fn key(number: u64) -> String {
        format!("key:{number:012}")
    }

    /// Returns the next version of a key and its value, and records the version as sent.
    pub(super) fn next(&self, key: u64) -> (u32, Vec<u8>) {
        let version = self.sent[at(key)].fetch_add(1, Ordering::Relaxed) + 1;
        (version, value(key, version, self.value_bytes))
    }

    /// Records that the server has acknowledged a version of a key.
    pub(super) fn acknowledge(&self, key: u64, version: u32) {
        self.acknowledged[at(key)].fetch_max(version, Ordering::Relaxed);
    }

    /// Returns the number of acknowledged writes: the sum of the versions of all keys.
    pub(super) fn writes(&self) -> u64 {
        self.acknowledged.iter().map(|version| u64::from(version.load(Ordering::Relaxed))).sum()
    }

    /// Compares the value that a server has for a key with the ledger.
    pub(super) fn check(&self, key: u64, found: Option<&[u8]>, verdict: &mut Verdict) {
        verdict.checked += 1;
        let oldest = self.acknowledged[at(key)].load(Ordering::Relaxed);
        let newest = self.sent[at(key)].load(Ordering::Relaxed);
        let Some(found) = found else {
            verdict.lost += u64::from(oldest > 0);
            return;
        };
        let found = match self.of {
            Of::SortedSet => std::str::from_utf8(found).ok().and_then(|score| score.parse().ok()),
            Of::Strings | Of::Hash => {
                version(found).filter(|version| found == value(key, *version, self.value_bytes))
            }
        };
        match found {
            Some(version) if version > newest || version == 0 => verdict.wrong += 1,
            Some(version) if version < oldest => verdict.lost += 1,
            Some(_) => {}
            None => verdict.wrong += 1,
        }
    }
}

fn at(key: u64) -> usize {
    usize::try_from(key).unwrap_or(usize::MAX)
}

/// Returns the value of a version of a key: its head, then random bytes seeded by key and version.
fn value(key: u64, version: u32, bytes: usize) -> Vec<u8> {
    let mut value = format!("{key:012}:{version:010}:").into_bytes();
    let mut random = fastrand::Rng::with_seed(key << 32 | u64::from(version));
    let body = bytes.saturating_sub(value.len());
    let at = value.len();
    value.resize(at + body, 0);
    random.fill(&mut value[at..]);
    value
}

/// Returns the version in the head of a value.
fn version(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value.get(13..23)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a ledger and the contents of a server that was sent versions 1 to 3 of ten keys and
    /// did not acknowledge the last one.
    fn acknowledged_ledger() -> (Ledger, Vec<Option<Vec<u8>>>) {
        let ledger = Ledger::new(Of::Strings, 10, 100);
        let mut has = vec![None; 10];
        for version in 1..=3 {
            for key in 0..10 {
                let (sent, value) = ledger.next(key);
                assert_eq!((sent, value.len()), (version, 100));
                if version < 3 {
                    ledger.acknowledge(key, sent);
                    has[at(key)] = Some(value);
                }
            }
        }
        (ledger, has)
    }

    fn verdict(ledger: &Ledger, has: &[Option<Vec<u8>>]) -> (u64, u64, u64) {
        let mut verdict = Verdict::default();
        for (key, value) in has.iter().enumerate() {
            ledger.check(key as u64, value.as_deref(), &mut verdict);
        }
        (verdict.checked, verdict.lost, verdict.wrong)
    }

    #[test]
    fn a_server_that_keeps_its_word_loses_nothing() {
        let (ledger, mut has) = acknowledged_ledger();
        assert_eq!(verdict(&ledger, &has), (10, 0, 0));
        assert_eq!(ledger.writes(), 20);
        // A version that was sent but not acknowledged may exist.
        has[4] = Some(value(4, 3, 100));
        assert_eq!(verdict(&ledger, &has), (10, 0, 0));
    }

    #[test]
    fn a_server_that_forgets_is_caught() {
        let (ledger, mut has) = acknowledged_ledger();
        has[3] = None;
        assert_eq!(verdict(&ledger, &has), (10, 1, 0));
        // The version before the last acknowledged one.
        has[7] = Some(value(7, 1, 100));
        assert_eq!(verdict(&ledger, &has), (10, 2, 0));
    }

    #[test]
    fn a_server_that_invents_is_caught() {
        let (ledger, mut has) = acknowledged_ledger();
        has[0] = Some(value(0, 4, 100));
        has[1] = Some(value(2, 2, 100));
        has[2].as_mut().expect("a value")[99] ^= 1;
        has[3] = Some(b"short".to_vec());
        assert_eq!(verdict(&ledger, &has), (10, 0, 4));
    }

    #[test]
    fn what_was_never_acknowledged_may_be_missing() {
        let ledger = Ledger::new(Of::Strings, 1, 100);
        ledger.next(0);
        assert_eq!(verdict(&ledger, &[None]), (1, 0, 0));
    }
}
