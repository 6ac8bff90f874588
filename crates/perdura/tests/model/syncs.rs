//! The time of syncs, by durability: [`super::costs`] counts syncs call by call; this file tests
//! the effects of time and of `flush`.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use perdura::prelude::*;
use perdura::{DomainRequest, Durability, JournalStatistics, Options, Perdura};

use super::state::{Checked, same};

fn open(folder: &Path, durability: Durability) -> Result<Perdura, String> {
    let options = Options::new(folder.join("pool")).domain(DomainRequest::Journal);
    let options = options.limit(32 << 20).journal_size(4 << 20).background(false);
    Perdura::open(options.durability(durability)).map_err(|error| error.to_string())
}

fn journal(store: &Perdura) -> Result<JournalStatistics, String> {
    store.statistics().journal.ok_or_else(|| "there is no journal".into())
}

fn set(store: &Perdura) -> Checked {
    store.set("key", "value").map_err(|error| error.to_string())
}

/// Returns how long a write stays unsynced; `most` if longer.
fn unsynced(store: &Perdura, most: Duration) -> Result<Duration, String> {
    set(store)?;
    let began = Instant::now();
    while journal(store)?.bytes_unsynced > 0 && began.elapsed() < most {
        sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed().min(most))
}

/// Returns true if one of several tries is in time: the machine may be busy.
fn once(mut is_in_time: impl FnMut() -> Result<bool, String>) -> Result<bool, String> {
    for _ in 0..8 {
        if is_in_time()? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn interval(folder: &Path) -> Checked {
    let store = open(folder, Durability::Interval(Duration::from_millis(30)))?;
    let most = Duration::from_millis(400);
    if !once(|| Ok(unsynced(&store, most)? < Duration::from_millis(200)))? {
        return Err("an interval of 30 ms synced nothing in 200 ms".into());
    }
    drop(store);
    let store = open(folder, Durability::Interval(Duration::from_secs(3600)))?;
    let least = Duration::from_millis(60);
    if !once(|| Ok(unsynced(&store, least)? == least))? {
        return Err("an interval of an hour synced each write within 60 ms".into());
    }
    Ok(())
}

fn flush(folder: &Path) -> Checked {
    for durability in [Durability::Os, Durability::Interval(Duration::from_secs(3600))] {
        let store = open(folder, durability)?;
        store.flush().map_err(|error| error.to_string())?;
        // The journal's thread syncs even when the store is idle.
        let is_unsynced = once(|| {
            let before = journal(&store)?;
            (0..20).try_for_each(|_| set(&store))?;
            let after = journal(&store)?;
            same("the batches of 20 writes", after.batches - before.batches, 20)?;
            let syncs = after.sync_times.count() - before.sync_times.count();
            Ok(syncs == 0 && after.bytes_unsynced > 0)
        })?;
        if !is_unsynced {
            return Err(format!("{durability:?}: 20 writes were synced, and nobody asked for it"));
        }
        let before = journal(&store)?;
        for n in 0..2 {
            store.flush().map_err(|error| error.to_string())?;
            let after = journal(&store)?;
            let synced = after.sync_times.count() - before.sync_times.count();
            same(
                &format!("{durability:?}: syncs of flush {n}"),
                (synced, after.bytes_unsynced),
                (1, 0),
            )?;
        }
        store.close().map_err(|error| error.to_string())?;
    }
    Ok(())
}

pub(crate) fn round(_: u64) -> Checked {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    flush(folder.path())?;
    interval(folder.path())
}
