//! Choosing the heap that the data is in, and opening it.
//!
//! The choice is made once, at the start, from `backend`, `domain` and `emulate-pmem`; the texts
//! about the choice promise no more than holds. Opening costs the same whatever the number of keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use heap::{CreateOptions, Heap, PoolError, Recovery};
use keyspace::Keyspace;
use pmem::{Domain, DomainRequest, MapError, MapOptions, Region, volatile_medium};

use crate::config::Values;
use crate::config::choice::{AppendFsync, EmulatedMedium, RequestedBackend, RequestedDomain};
use crate::pool::lock::when_unlocked;
use crate::pool::media::{self, EmulatedMedia};
use crate::pool::other_stores::{self, OtherStores, Served};
use crate::process::data_dir::DataDir;
use crate::process::machine;

/// The least space that a heap in memory gets.
const LEAST_MEMORY: u64 = 1 << 30;
/// Addresses that are reserved for a pool, in multiples of its limit, so that the limit can be
/// raised while the pool is served; and their maximum.
const HEADROOM: u64 = 16;
const MOST_HEADROOM: u64 = 1 << 40;

/// Why no store could be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The pool's file cannot be mapped.
    #[error("{0}")]
    Map(#[from] MapError),
    /// No pool can be created.
    #[error("cannot make a pool at {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: heap::CreateError,
    },
    /// The pool cannot be opened.
    #[error("cannot open the pool {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: heap::OpenError,
    },
    /// Another store holds data, and would be ignored.
    #[error("{0}")]
    OtherStores(OtherStores),
    /// Another server owns the working directory.
    #[error("{0}")]
    Directory(String),
    /// Options contradict each other.
    #[error("{0}")]
    Options(String),
    /// The system has no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] std::io::Error),
}

impl StoreError {
    fn pool(path: &Path, error: PoolError) -> StoreError {
        let path = path.to_owned();
        match error {
            PoolError::Create(source) => StoreError::Create { path, source },
            PoolError::Open(source) => StoreError::Open { path, source },
            PoolError::Random(source) => StoreError::Random(source),
        }
    }
}

/// Where the data is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In the pool.
    Pmem,
    /// In memory, with an append-only file.
    Aof,
    /// In memory only.
    Volatile,
}

/// The opened store, for the log and INFO.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) backend: Backend,
    pub(crate) domain: Domain,
    pub(crate) emulated: bool,
    /// Whether the pool's journal is on persistent memory.
    pub(crate) is_tail_in_pmem: bool,
    pub(crate) pool: Option<PathBuf>,
    pub(crate) recovery: Recovery,
    pub(crate) recovery_us: u64,
    /// The medium of the files, if it loses its content with power.
    pub(crate) volatile: Option<String>,
    /// The emulated medium, as `emulate-media` names it.
    pub(crate) media: Option<EmulatedMedia>,
    /// Whether the pool was created at this start.
    pub(crate) is_new: bool,
    /// Why this backend was chosen, if it was not named.
    pub(crate) why: Option<String>,
}

impl Report {
    pub(crate) fn backend_name(&self) -> &'static str {
        match self.backend {
            Backend::Pmem if self.domain == Domain::Journal => "journal",
            Backend::Pmem => "pmem",
            Backend::Aof => "aof",
            Backend::Volatile => "volatile",
        }
    }

    /// Returns true if reads never go to persistent memory.
    pub(crate) fn is_in_dram(&self) -> bool {
        self.backend != Backend::Pmem || self.domain == Domain::Journal
    }

    /// Returns the worst that every acknowledged write survives, in two words.
    pub(crate) fn survives(&self, fsync: AppendFsync) -> &'static str {
        match (self.backend, self.domain) {
            (Backend::Volatile, _) => "nothing",
            (Backend::Aof, _) => self.survives_of_log(fsync),
            (Backend::Pmem, _) if self.volatile.is_some() => "process crash",
            (Backend::Pmem, _) if self.emulated => "process crash",
            (Backend::Pmem, Domain::Journal) => self.survives_of_log(fsync),
            (Backend::Pmem, Domain::Clwb | Domain::Eadr | Domain::Msync) => "power loss",
            (Backend::Pmem, _) => "process crash",
        }
    }

    /// Returns what is survived and what not. `fsync` is the policy of the append-only file, or of
    /// the journal.
    pub(crate) fn durability(&self, fsync: AppendFsync) -> &'static str {
        match (self.backend, self.domain) {
            (Backend::Pmem, _) if self.emulated => "emulated: survives a process crash only",
            (Backend::Pmem, _) if self.volatile.is_some() => ON_VOLATILE_MEDIUM,
            (Backend::Pmem, Domain::Journal) => match fsync {
                AppendFsync::Always if self.is_tail_in_pmem => {
                    "a write is in the journal, on persistent memory, when its reply leaves: \
                     survives power loss"
                }
                AppendFsync::Always => {
                    "a write is synced to the journal when its reply leaves: survives power loss"
                }
                AppendFsync::EverySec => {
                    "survives a process crash; power loss may take the newest writes, of the last two seconds"
                }
                AppendFsync::No => {
                    "survives a process crash; power loss may take the newest writes, those that the system had not yet written"
                }
            },
            (Backend::Pmem, Domain::Clwb | Domain::Eadr) => {
                "a write is durable when its reply leaves: survives power loss"
            }
            (Backend::Pmem, Domain::Msync) => {
                "a write is synced when its reply leaves: survives power loss"
            }
            (Backend::Pmem, _) => {
                "survives a process crash only, not power loss nor a crash of the system"
            }
            (Backend::Volatile, _) => {
                "only what was saved in an RDB file survives the end of the process"
            }
            (Backend::Aof, _) => self.durability_of_log(fsync),
        }
    }

    /// Returns what is survived and what not of data in memory with an append-only file.
    pub(crate) fn durability_of_log(&self, fsync: AppendFsync) -> &'static str {
        match fsync {
            _ if self.volatile.is_some() => ON_VOLATILE_MEDIUM,
            AppendFsync::Always => {
                "a write is synced to the log when its reply leaves: survives power loss"
            }
            AppendFsync::EverySec => {
                "survives a process crash; power loss may take the writes of the last two seconds"
            }
            AppendFsync::No => {
                "survives a process crash; power loss may take what the system had not yet written"
            }
        }
    }

    /// Returns the worst that every acknowledged write survives where an append-only file or a
    /// journal holds it.
    pub(crate) fn survives_of_log(&self, fsync: AppendFsync) -> &'static str {
        let survives = fsync == AppendFsync::Always && self.volatile.is_none();
        if survives { "power loss" } else { "process crash" }
    }
}

/// The durability of everything on a medium that loses its content with power.
const ON_VOLATILE_MEDIUM: &str = "survives a process crash only: power loss, or a restart of the machine, takes the medium's content";

/// A store that was opened.
pub(crate) struct Store {
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) report: Report,
    pub(crate) data_dir: DataDir,
}

type Opened = (Arc<Keyspace>, Report);

fn request(values: &Values) -> DomainRequest {
    match values.domain {
        RequestedDomain::Clwb => DomainRequest::Clwb,
        RequestedDomain::Eadr => DomainRequest::Eadr,
        RequestedDomain::Msync => DomainRequest::Msync,
        RequestedDomain::Process => DomainRequest::Process,
        RequestedDomain::Auto => DomainRequest::Auto,
    }
}

/// Takes the working directory, and opens the store that the configuration asks for.
pub(crate) fn open(values: &Values, now_ms: u64) -> Result<Store, StoreError> {
    let data_dir = DataDir::own(Path::new(&values.dir.to_text())).map_err(StoreError::Directory)?;
    let (keyspace, report) = choose(values, now_ms)?;
    Ok(Store { keyspace, report, data_dir })
}

fn choose(values: &Values, now_ms: u64) -> Result<Opened, StoreError> {
    let pool = values.pool.to_text();
    let pool = PathBuf::from(if pool.is_empty() { "perdura.pool" } else { &pool });
    let by_name = values.domain != RequestedDomain::Auto || values.emulate_pmem;
    let backend = values.backend;
    let no_pmem = |what: &str| {
        let text =
            format!("{what} to the pmem backend, and --backend {} was asked for", backend.name());
        Err(StoreError::Options(text))
    };
    match backend {
        RequestedBackend::Pmem => open_pool(&pool, request(values), values, now_ms, None),
        RequestedBackend::Journal if values.emulate_pmem && !values.journal.is_empty() => {
            if values.domain != RequestedDomain::Auto {
                return no_pmem("--domain belongs");
            }
            open_pool(&pool, DomainRequest::Journal, values, now_ms, None)
        }
        RequestedBackend::Journal if values.emulate_pmem => {
            no_pmem("--emulate-pmem takes the file of --journal, which is not named, or belongs")
        }
        RequestedBackend::Aof | RequestedBackend::Journal if by_name => {
            no_pmem("--domain and --emulate-pmem belong")
        }
        RequestedBackend::Aof | RequestedBackend::Journal
            if values.emulate_media != EmulatedMedium::No =>
        {
            no_pmem("--emulate-media belongs")
        }
        RequestedBackend::Journal => open_pool(&pool, DomainRequest::Journal, values, now_ms, None),
        RequestedBackend::Aof => open_memory(&pool, values, now_ms, None),
        RequestedBackend::Auto if by_name => {
            let why = "its domain was asked for by name".into();
            open_pool(&pool, request(values), values, now_ms, Some(why))
        }
        RequestedBackend::Auto => open_best(&pool, values, now_ms),
    }
}

/// Returns the pool: directly if its file is persistent memory, with a journal otherwise. An
/// append-only file that holds the data is served as before.
fn open_best(pool: &Path, values: &Values, now_ms: u64) -> Result<Opened, StoreError> {
    let why = Some(format!("{} is persistent memory", pool.display()));
    match open_pool(pool, DomainRequest::Auto, values, now_ms, why) {
        Err(StoreError::Map(MapError::NoMapSync { .. })) => {}
        Err(StoreError::Map(MapError::WrongMachine { unit, found, .. })) => {
            let why = format!("no pool can be mapped on a machine whose {unit} have {found} bytes");
            return open_memory(pool, values, now_ms, Some(why));
        }
        other => return other,
    }
    let is_disk = format!("{} is not persistent memory (no MAP_SYNC)", pool.display());
    if let Some(holds) = other_stores::held_by_log(pool, values, now_ms) {
        let why = format!("{is_disk}, and {holds}; `perdura import` makes a pool of that");
        return open_memory(pool, values, now_ms, Some(why));
    }
    open_pool(pool, DomainRequest::Journal, values, now_ms, Some(is_disk))
}

fn map(pool: &Path, domain: DomainRequest, values: &Values) -> Result<Region, MapError> {
    let limit = values.pool_size;
    let mut options = MapOptions::new(limit.saturating_mul(HEADROOM).min(MOST_HEADROOM).max(limit));
    options.domain = domain;
    options.emulate = values.emulate_pmem;
    options.preload = values.preload;
    options.journal_size = values.journal_size;
    options.journal =
        Some(values.journal.to_text()).filter(|path| !path.is_empty()).map(Into::into);
    let opened = when_unlocked(pool, || Region::open(pool, &options));
    // The process may have few addresses (ulimit -v), or the system may count private mappings as
    // used memory (vm.overcommit_memory): then the limit cannot be raised later.
    match &opened {
        Err(MapError::Reserve { .. }) => {}
        Err(MapError::Io { step: "map", .. }) => {}
        _ => return opened,
    }
    options.reserve = limit;
    when_unlocked(pool, || Region::open(pool, &options))
}

fn open_pool(
    pool: &Path,
    domain: DomainRequest,
    values: &Values,
    now_ms: u64,
    why: Option<String>,
) -> Result<Opened, StoreError> {
    let begin = Instant::now();
    media::check(values).map_err(StoreError::Options)?;
    let region = map(pool, domain, values)?;
    let is_blank = Heap::is_blank(&region);
    other_stores::refuse(Served::Pool { is_blank }, pool, values, now_ms)
        .map_err(StoreError::OtherStores)?;
    let (region, media) = media::emulate(region, values).map_err(StoreError::Options)?;
    let (domain, emulated) = (region.domain(), region.emulated());
    let (heap, recovery) = Heap::open_or_create_up_to(region, values.pool_size)
        .map_err(|error| StoreError::pool(pool, error))?;
    let is_new = recovery.is_none();
    let recovery = recovery.unwrap_or_else(new_pool);
    let is_tail_in_pmem = heap.region().journal_counts().is_some_and(|counts| counts.is_mapped);
    let emulated = emulated || is_tail_in_pmem && values.emulate_pmem;
    let journal = heap.region().journal_file().map(|file| file.path);
    let keyspace = Arc::new(Keyspace::new(heap, now_ms));
    // Losses that recovery met are resolved before clients are served.
    keyspace.resolve_losses();
    let report = Report {
        backend: Backend::Pmem,
        domain,
        emulated,
        is_tail_in_pmem,
        volatile: volatile_medium(pool).or_else(|| volatile_medium(&journal?)),
        media,
        pool: Some(std::fs::canonicalize(pool).unwrap_or_else(|_| pool.to_owned())),
        recovery,
        recovery_us: begin.elapsed().as_micros() as u64,
        is_new,
        why,
    };
    Ok((keyspace, report))
}

/// Returns the recovery report of a pool that was just created.
fn new_pool() -> Recovery {
    Recovery { clean: true, ..Recovery::default() }
}

/// Returns the folder of the append-only file, or the one where it will be made.
fn folder_of_log(values: &Values) -> PathBuf {
    let dir = PathBuf::from(values.dir.to_text());
    let folder = dir.join(values.appenddirname.to_text());
    if folder.exists() { folder } else { dir }
}

fn open_memory(
    pool: &Path,
    values: &Values,
    now_ms: u64,
    why: Option<String>,
) -> Result<Opened, StoreError> {
    let begin = Instant::now();
    // Data in memory has a log unless it was said that it needs none.
    let logged = values.appendonly || !values.given.appendonly;
    let served = if logged { Served::Log } else { Served::Memory };
    other_stores::refuse(served, pool, values, now_ms).map_err(StoreError::OtherStores)?;
    let limit = machine::memory().max(LEAST_MEMORY);
    let heap = Heap::volatile(limit, &CreateOptions::fitting(limit)?)
        .map_err(|source| StoreError::Create { path: PathBuf::from("memory"), source })?;
    let keyspace = Arc::new(Keyspace::new(heap, now_ms));
    let report = Report {
        backend: if logged { Backend::Aof } else { Backend::Volatile },
        domain: Domain::Volatile,
        emulated: false,
        is_tail_in_pmem: false,
        volatile: volatile_medium(&folder_of_log(values)),
        media: None,
        pool: None,
        recovery: new_pool(),
        recovery_us: begin.elapsed().as_micros() as u64,
        is_new: true,
        why,
    };
    Ok((keyspace, report))
}
