//! A pool whose medium loses bytes: the file is truncated under the mapping, which raises the same
//! signal as a cache line that persistent memory cannot read.

use super::{HEADER, NOW, db, emulated, set};
use keyspace::{Error, Keyspace, Scrub};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const KEYS: usize = 4000;

/// The offset of the first zone in a pool with one shard and the geometry of `common`.
pub(crate) const ZONES: u64 = (12288u64 + 2048 + 8 * 32768).next_multiple_of(65536);

pub(crate) struct Pool {
    pub(crate) _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) ks: Keyspace,
}

impl Pool {
    pub(crate) fn new(keys: usize) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let ks = emulated(&path, 1);
        for i in 0..keys {
            set(&ks, &name(i), &value(i));
        }
        Pool { _folder: folder, path, ks }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }

    /// Returns the offset of the entry of a key, found by its bytes.
    pub(crate) fn entry(&self, key: &str) -> u64 {
        let text = format!("{key}the value");
        memchr::memmem::find(&self.bytes(), text.as_bytes()).expect("the key") as u64 - HEADER
    }

    /// Loses everything from this page on.
    pub(crate) fn lose(&self, page: u64) {
        let last = self.last_page();
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        let len = file.metadata().expect("a file").len();
        file.set_len(page).expect("a shorter file");
        for page in (page..=last).step_by(PAGE as usize) {
            self.ks.heap().region().load(page);
        }
        file.set_len(len).expect("as long as before, with zeros");
        assert!(self.ks.has_unresolved_losses());
    }

    /// Flips a bit in the file, behind the keyspace's back.
    pub(crate) fn flip(&self, at: u64) {
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.write_all_at(&[self.bytes()[at as usize] ^ 1], at).expect("a write");
    }

    /// Loses one page, and keeps the pages after it.
    pub(crate) fn lose_one(&self, page: u64) {
        let bytes = self.bytes();
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.set_len(page).expect("a shorter file");
        self.ks.heap().region().load(page);
        let next_page = page + PAGE;
        file.write_all_at(&bytes[next_page as usize..], next_page).expect("what follows");
        assert!(self.ks.has_unresolved_losses());
    }

    /// Returns the last page that is not all zeros.
    pub(crate) fn last_page(&self) -> u64 {
        let bytes = self.bytes();
        let last = bytes.iter().rposition(|byte| *byte != 0).expect("a pool") as u64;
        last & !(PAGE - 1)
    }
}

pub(crate) fn name(i: usize) -> String {
    format!("key:{i:05}")
}

pub(crate) fn value(i: usize) -> String {
    format!("the value of key {i}, which is a bit longer than it has to be")
}

/// Reads a string as a server does: retries a read during which bytes were lost.
pub(crate) fn read(ks: &Keyspace, key: &str) -> Result<Option<String>, String> {
    loop {
        super::goes_on();
        let losses = ks.losses();
        let key = ks.key(key.as_bytes());
        if ks.has_media_errors()
            && let Some(key_damage) = ks.key_damage(db(0), &key)
        {
            return Err(format!("{key_damage:?}"));
        }
        let mut txn = ks.begin_one(key.shard(), NOW);
        let found = txn.find(db(0), &key);
        let text = found.map(|entry| {
            let text = txn.string(&entry).and_then(|text| text.to_vec());
            text.map(|text| String::from_utf8_lossy(&text).into_owned())
        });
        drop(txn);
        if !ks.has_lost_since(losses) {
            return text.transpose().map_err(|error| {
                let is_damage = matches!(error, Error::Damaged(_));
                assert!(is_damage, "{error:?}: a read fails for damage only");
                error.to_string()
            });
        }
        ks.resolve_losses();
    }
}

/// Scrubs the whole keyspace once. Returns the number of keys, and of damaged keys.
pub(crate) fn scrub(ks: &Keyspace) -> (u64, u64) {
    let (mut keys, mut found) = (0, 0);
    for shard in 0..ks.shards() {
        let mut at = Scrub::default();
        loop {
            super::goes_on();
            let (next, more) = ks.scrub_step(shard, at).expect("a step");
            at = next;
            if !more {
                break;
            }
        }
        keys += at.keys;
        found += at.found;
    }
    (keys, found)
}
