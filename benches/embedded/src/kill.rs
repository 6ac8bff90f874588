//! What a store is like after kill -9 under load: how soon it answers, and whether it has what it
//! acknowledged.
//!
//! One process fills the store and then inserts keys from two threads, writing into a small file
//! how many each has had acknowledged; the parent kills it in the midst of that. Another process
//! opens the store, times the first answer and looks for every acknowledged value. Caches survive a
//! kill: this says nothing about power loss.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cell::fill;
use crate::data::{key, value};
use crate::store::{Failure, Result, Store};
use crate::systems::System;

const THREADS: u64 = 2;

/// What was found afterwards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// From before the store was opened until one of the values of the fill was asked for and
    /// answered, in milliseconds.
    pub first_answer: f64,
    /// Values whose writes had returned before the kill.
    pub acknowledged: u64,
    /// How many of them are missing or wrong.
    pub lost: u64,
}

/// How far the process came: one number for each thread, and before them whether the fill is done.
pub struct Progress {
    file: File,
}

impl Progress {
    /// Returns a new one, at zero.
    pub fn create(path: &Path) -> Result<Progress> {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(8 * (1 + THREADS))?;
        Ok(Progress { file })
    }

    /// Returns one that another process made.
    pub fn open(path: &Path) -> Result<Progress> {
        Ok(Progress { file: File::options().read(true).write(true).open(path)? })
    }

    fn set(&self, place: u64, count: u64) -> Result<()> {
        Ok(self.file.write_all_at(&count.to_le_bytes(), 8 * place)?)
    }

    fn get(&self, place: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 8 * place)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns whether the load has begun.
    pub fn is_filled(&self) -> Result<bool> {
        Ok(self.get(0)? != 0)
    }
}

/// Returns the number of what thread `t` inserts as its `i`th.
fn number(t: u64, i: u64) -> u64 {
    ((t + 1) << 40) + i
}

/// Fills the store and inserts until the process is killed.
pub fn load(system: &System, folder: &Path, keys: u64, len: usize, progress: &Path) -> Result<()> {
    let store = (system.open)(folder)?;
    let progress = Progress::open(progress)?;
    fill(store.as_ref(), keys, len)?;
    progress.set(0, 1)?;
    let insert = |t| -> Result<()> {
        for i in 0.. {
            let n = number(t, i);
            store.put(&key(n), &value(n, len))?;
            progress.set(1 + t, i + 1)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || insert(t))).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}

/// Opens what the kill left, and looks for everything that was acknowledged.
pub fn reopen(
    system: &System,
    folder: &Path,
    keys: u64,
    len: usize,
    progress: &Path,
) -> Result<Found> {
    let progress = Progress::open(progress)?;
    let start = Instant::now();
    let store = (system.open)(folder)?;
    store.get(&key(keys / 2), &mut |_| ())?;
    let first_answer = start.elapsed().as_secs_f64() * 1e3;
    let mut found = Found { first_answer, acknowledged: 0, lost: 0 };
    let mut look_for = |n| -> std::result::Result<(), Failure> {
        found.acknowledged += 1;
        found.lost += u64::from(!holds(store.as_ref(), n, len)?);
        Ok(())
    };
    (0..keys).try_for_each(&mut look_for)?;
    for t in 0..THREADS {
        (0..progress.get(1 + t)?).try_for_each(|i| look_for(number(t, i)))?;
    }
    Ok(found)
}

/// Returns whether value number `n` is there as it was written.
fn holds(store: &dyn Store, n: u64, len: usize) -> Result<bool> {
    let mut is_right = false;
    store.get(&key(n), &mut |found| is_right = found == value(n, len))?;
    Ok(is_right)
}
