//! What a start would leave aside: stores that hold data, other than the one that it serves.
//!
//! A directory can hold a pool, an append-only file and a `dump.rdb` of Redis. A start serves one
//! store, chosen by `backend` and by the medium; whoever is served an empty store next to the data
//! takes it for lost, and what is then written is missing when the other store is served again. So
//! one rule: a start is refused while another store holds data, unless `other-stores ignore` says
//! that this is meant.
//!
//! The evidence is certain and costs the same whatever the number of keys: a pool is opened in a
//! private copy, as `perdura check` does, and says how many keys it has; a log counts by the bytes
//! that would be loaded, a `dump.rdb` by being there, unless it was saved of the store that is
//! served. What cannot be read counts as data.
//!
//! Invariant: nothing is created or changed.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use heap::Heap;
use keyspace::{Db, Keyspace};
use pmem::Region;

use crate::append_only;
use crate::config::Values;
use crate::pool_lock::when_unlocked;

/// The store that a start is about to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Pool {
        /// It is a new one.
        is_blank: bool,
    },
    Log,
    Memory,
}

/// A store that holds data.
struct Holding {
    what: String,
    /// The options that serve it.
    serve: &'static str,
}

const SERVE_POOL: &str =
    "--backend journal (on an ordinary disk), or --backend pmem with the --domain that it had";
const SERVE_LOG: &str = "--backend aof --appendonly yes";
const SERVE_DUMP: &str = "--backend aof --appendonly no, or redis-server";

/// Other stores hold data.
#[derive(Debug)]
pub struct OtherStores {
    served: String,
    others: Vec<Holding>,
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Display for OtherStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |of: fn(&Holding) -> &str| {
            self.others.iter().map(of).collect::<Vec<_>>().join("; and ")
        };
        let (what, serve) = (list(|other| &other.what), list(|other| other.serve));
        write!(
            f,
            "this start would serve {}, and {what}. Nothing was changed. To serve that data: {serve}. \
             To leave it aside: move it to another directory, or start with --other-stores ignore",
            self.served
        )
    }
}

/// Refuses to serve one store while another one holds data.
pub(crate) fn refuse(
    served: Served,
    pool: &Path,
    values: &Values,
    now: u64,
) -> Result<(), OtherStores> {
    if values.get("other-stores") == b"ignore" {
        return Ok(());
    }
    let log = append_only::options(values);
    let folder = log.dir.join(&log.dirname);
    let mut others = Vec::new();
    if !matches!(served, Served::Pool { .. })
        && let Some(holds) = pool_holds(pool, now)
    {
        let what = format!("the pool {} {holds}", pool.display());
        others.push(Holding { what, serve: SERVE_POOL });
    }
    if served != Served::Log
        && let Some(holds) = log_holds(&log)
    {
        let what = format!("the append-only file in {} {holds}", folder.display());
        others.push(Holding { what, serve: SERVE_LOG });
    }
    let dump = dump(values);
    if dump.exists() && !is_copy(served, &dump, &log) {
        let what = format!("{} is data that was saved", dump.display());
        others.push(Holding { what, serve: SERVE_DUMP });
    }
    if others.is_empty() {
        return Ok(());
    }
    let served = match served {
        Served::Pool { .. } => format!("the pool {}", pool.display()),
        Served::Log => format!("the append-only file in {}", folder.display()),
        Served::Memory => format!("memory, saved to {} (appendonly no)", dump.display()),
    };
    Err(OtherStores { served, others })
}

/// Returns what an append-only file holds, in words, if that is the only store that holds data: not
/// the pool.
pub(crate) fn held_by_log(pool: &Path, values: &Values, now: u64) -> Option<String> {
    let log = append_only::options(values);
    let holds = log_holds(&log).filter(|_| pool_holds(pool, now).is_none())?;
    Some(format!("the append-only file in {} {holds}", log.dir.join(&log.dirname).display()))
}

/// Returns true if the dump is a copy that was saved of what is served, and that is there.
fn is_copy(served: Served, dump: &Path, log: &aof::Options) -> bool {
    match served {
        Served::Pool { is_blank } => {
            !is_blank && saved_of(dump).is_some_and(|of| of == b"pmem" || of == b"journal")
        }
        Served::Log => log_holds(log).is_some() && saved_of(dump).is_some_and(|of| of == b"aof"),
        // It is what is loaded.
        Served::Memory => true,
    }
}

/// Returns which backend had the data that a dump was saved of, if this server saved it.
fn saved_of(dump: &Path) -> Option<Vec<u8>> {
    commands::saved_of(BufReader::new(File::open(dump).ok()?))
}

/// Returns where the dump is.
pub(crate) fn dump(values: &Values) -> PathBuf {
    PathBuf::from(values.text("dir")).join(values.text("dbfilename"))
}

/// Returns what a pool holds, if anything.
fn pool_holds(pool: &Path, now: u64) -> Option<String> {
    if !pool.exists() {
        return None;
    }
    let region = match when_unlocked(pool, || Region::inspect(pool)) {
        Ok(region) => region,
        Err(error) => return Some(format!("cannot be looked at ({error})")),
    };
    if Heap::is_blank(&region) {
        return None;
    }
    match Heap::open(region, pmem::boot_id()) {
        Ok((heap, _)) => {
            let keyspace = Keyspace::new(heap, now);
            match Db::all().map(|db| keyspace.count(db).0).sum::<u64>() {
                0 => None,
                1 => Some("holds 1 key".into()),
                keys => Some(format!("holds {keys} keys")),
            }
        }
        Err(error) => Some(format!("cannot be opened ({error})")),
    }
}

/// Returns what a log holds, if anything.
fn log_holds(log: &aof::Options) -> Option<String> {
    match log.stored() {
        Ok(0) => None,
        Ok(bytes) => Some(format!("holds {bytes} bytes")),
        Err(error) => Some(format!("cannot be looked at ({error})")),
    }
}
