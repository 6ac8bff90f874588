//! Stores with data that a start would ignore, because it serves another one.
//!
//! A directory can hold a pool, an append-only file and a `dump.rdb` of Redis. A start serves one
//! store, chosen by `backend` and by the medium. Users of an empty store next to the data would
//! take the data for lost, and later writes would be missing when the other store is served again.
//! So a start is refused while another store holds data, unless `other-stores ignore` says that
//! this is intended. `way_on` advises what to do instead.
//!
//! The check is reliable and costs the same for any number of keys: a pool is opened in a private
//! copy, as by `perdura check`, and tells its number of keys; a log counts by the bytes that would
//! be loaded, a `dump.rdb` by its existence, unless it is a dump of the served store. A store that
//! cannot be read counts as data.
//!
//! Invariant: nothing is created or changed.

mod way_on;

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use heap::Heap;
use keyspace::{Db, Keyspace};
use pmem::Region;

use crate::config::{Values, choice};
use crate::durability::append_only;
use crate::pool::lock::when_unlocked;
use way_on::{Place, way_on};

/// The store that a start is about to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Pool {
        /// Whether it is a new one.
        is_blank: bool,
    },
    Log,
    Memory,
}

/// A store that holds data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holding {
    Pool { path: PathBuf, holds: String },
    Log { path: PathBuf, holds: String },
    Dump { path: PathBuf },
}

impl Holding {
    /// Returns the path of a file or directory, unless this is a pool.
    fn file(&self) -> Option<&Path> {
        match self {
            Holding::Pool { .. } => None,
            Holding::Log { path, .. } | Holding::Dump { path } => Some(path),
        }
    }

    /// Returns true if it is the served store.
    fn is(&self, served: Served) -> bool {
        match self {
            Holding::Pool { .. } => matches!(served, Served::Pool { .. }),
            Holding::Log { .. } => served == Served::Log,
            Holding::Dump { .. } => served == Served::Memory,
        }
    }
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holding::Pool { path, holds } => write!(f, "the pool {} {holds}", path.display()),
            Holding::Log { path, holds } => {
                write!(f, "the append-only file in {} {holds}", path.display())
            }
            Holding::Dump { path } => write!(f, "{} is data that was saved", path.display()),
        }
    }
}

/// Other stores hold data.
#[derive(Debug)]
pub struct OtherStores {
    served: String,
    others: Vec<Holding>,
    way_on: String,
}

impl fmt::Display for OtherStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherStores { served, others, way_on } = self;
        let what = others.iter().map(Holding::to_string).collect::<Vec<_>>().join("; and ");
        write!(f, "this start would serve {served}, and {what}. Nothing was changed. {way_on}")
    }
}

/// Refuses to serve one store while another one holds data.
pub(crate) fn refuse(
    served: Served,
    pool: &Path,
    values: &Values,
    now: u64,
) -> Result<(), OtherStores> {
    if values.other_stores == choice::OtherStores::Ignore {
        return Ok(());
    }
    let all = holdings(served, pool, values, now);
    let others: Vec<Holding> = all.iter().filter(|holding| !holding.is(served)).cloned().collect();
    if others.is_empty() {
        return Ok(());
    }
    let log = append_only::options(values);
    let place = Place {
        dir: log.dir.clone(),
        pool: std::path::absolute(pool).unwrap_or_else(|_| pool.to_owned()),
        is_pool_named: !values.pool.is_empty(),
        is_aof: values.backend == choice::RequestedBackend::Aof,
        reads_dump: values.given.appendonly && !values.appendonly,
    };
    let way_on = way_on(served, &all, &place);
    let served = match served {
        Served::Pool { .. } => format!("the pool {}", pool.display()),
        Served::Log => format!("the append-only file in {}", folder(&log).display()),
        Served::Memory => format!("memory, saved to {} (appendonly no)", dump(values).display()),
    };
    Err(OtherStores { served, others, way_on })
}

/// Returns the stores that hold data, including the served one; a served pool is open already, and
/// left out.
fn holdings(served: Served, pool: &Path, values: &Values, now: u64) -> Vec<Holding> {
    let log = append_only::options(values);
    let mut all = Vec::new();
    if !matches!(served, Served::Pool { .. })
        && let Some(holds) = pool_holds(pool, now)
    {
        all.push(Holding::Pool { path: pool.into(), holds });
    }
    if let Some(holds) = log_holds(&log) {
        all.push(Holding::Log { path: folder(&log), holds });
    }
    let path = dump(values);
    if has_dump(values) && !is_copy(served, &path, &log) {
        all.push(Holding::Dump { path });
    }
    all
}

/// Returns the path of the log's files; before Redis 7 it is a single file.
fn folder(log: &aof::Options) -> PathBuf {
    let (folder, old) = (log.dir.join(&log.dirname), log.dir.join(&log.filename));
    if !folder.exists() && old.is_file() { old } else { folder }
}

/// Returns a description of an append-only file's data, if there is some and the pool has none.
pub(crate) fn held_by_log(pool: &Path, values: &Values, now: u64) -> Option<String> {
    let log = append_only::options(values);
    let holds = log_holds(&log).filter(|_| pool_holds(pool, now).is_none())?;
    Some(Holding::Log { path: folder(&log), holds }.to_string())
}

/// Returns true if the dump is a copy of the served store.
fn is_copy(served: Served, dump: &Path, log: &aof::Options) -> bool {
    match served {
        Served::Pool { is_blank } => {
            !is_blank && saved_of(dump).is_some_and(|of| of == b"pmem" || of == b"journal")
        }
        Served::Log => log_holds(log).is_some() && saved_of(dump).is_some_and(|of| of == b"aof"),
        // The dump is loaded.
        Served::Memory => false,
    }
}

/// Returns the backend of the data in a dump, if this server saved it.
fn saved_of(dump: &Path) -> Option<Vec<u8>> {
    commands::saved_of(BufReader::new(File::open(dump).ok()?))
}

/// Returns the path of the dump.
pub(crate) fn dump(values: &Values) -> PathBuf {
    PathBuf::from(values.dir.to_text()).join(values.dbfilename.to_text())
}

/// Returns true if there is a dump. Without a name for it there is none.
pub(crate) fn has_dump(values: &Values) -> bool {
    !values.dbfilename.is_empty() && dump(values).exists()
}

/// Returns a description of a pool's data, if it has some.
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

/// Returns a description of a log's data, if it has some.
fn log_holds(log: &aof::Options) -> Option<String> {
    match log.stored() {
        Ok(0) => None,
        Ok(bytes) => Some(format!("holds {bytes} bytes")),
        Err(error) => Some(format!("cannot be looked at ({error})")),
    }
}
