//! How to open a store.

use std::io;
use std::path::PathBuf;

use heap::{CreateOptions, Heap};
use pmem::{DomainRequest, MapOptions, Region};

use crate::{OpenError, machine};

/// How to open a store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::{DomainRequest, Options, Perdura};
///
/// let options = Options::new(dir.path().join("pool"))
///     .domain(DomainRequest::Process)
///     .limit(64 << 20)
///     .background(false);
/// let store = Perdura::open(options.clone())?;
/// assert!(store.usage().limit <= 64 << 20);
/// drop(store);
///
/// // It is there now: nothing is made.
/// Perdura::open(options.create(false))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: Option<PathBuf>,
    pub(crate) limit: u64,
    pub(crate) domain: DomainRequest,
    pub(crate) emulate: bool,
    pub(crate) create: bool,
    pub(crate) read_cache: u64,
    pub(crate) background: bool,
    pub(crate) clock: fn() -> u64,
}

impl Options {
    /// Returns a pool file (or a DAX device), made if it does not exist, on persistent memory, up
    /// to 4 GiB.
    pub fn new(path: impl Into<PathBuf>) -> Options {
        Options { path: Some(path.into()), ..Options::volatile() }
    }

    /// Keeps the store in DRAM: it ends with the process.
    pub fn volatile() -> Options {
        Options {
            path: None,
            limit: 4 << 30,
            domain: DomainRequest::Auto,
            emulate: false,
            create: true,
            read_cache: 0,
            background: true,
            clock: machine::now,
        }
    }

    /// Returns how many bytes the pool may grow to. It starts small.
    pub fn limit(self, bytes: u64) -> Options {
        Options { limit: bytes, ..self }
    }

    /// Returns the persistence domain; without this, that of persistent memory, and an error where
    /// there is none.
    pub fn domain(self, domain: DomainRequest) -> Options {
        Options { domain, ..self }
    }

    /// Runs the instructions of persistent memory on any file: for tests, since a power loss is not
    /// survived.
    pub fn emulate_pmem(self, yes: bool) -> Options {
        Options { emulate: yes, ..self }
    }

    /// Returns whether a pool is made where there is none; yes by default.
    pub fn create(self, yes: bool) -> Options {
        Options { create: yes, ..self }
    }

    /// Bytes of DRAM for copies of values that are read often; 0, as by default, for none. Of use
    /// where the medium is slower than DRAM.
    pub fn read_cache(self, bytes: u64) -> Options {
        Options { read_cache: bytes, ..self }
    }

    /// Returns whether a thread deletes expired keys and frees what deletes left; yes by default.
    /// Without it, call [`crate::Perdura::maintain`] periodically.
    pub fn background(self, yes: bool) -> Options {
        Options { background: yes, ..self }
    }

    /// Returns where the store reads the time, in unix milliseconds; the system's clock by default.
    pub fn clock(self, clock: fn() -> u64) -> Options {
        Options { clock, ..self }
    }

    pub(crate) fn heap(&self) -> Result<Heap, OpenError> {
        let Some(path) = &self.path else {
            return Ok(Heap::volatile(self.limit, &CreateOptions::fitting(self.limit)?)?);
        };
        if self.domain == DomainRequest::Journal {
            // A call would return before its write is durable.
            let text = "domain journal is not offered by the library yet";
            return Err(OpenError::Io(io::Error::new(io::ErrorKind::Unsupported, text)));
        }
        let options = MapOptions {
            create: self.create,
            domain: self.domain,
            emulate: self.emulate,
            ..MapOptions::new(self.limit)
        };
        let region = pmem::when_unlocked(|| Region::open(path, &options), || ())?;
        if !self.create {
            return Ok(Heap::open(region, pmem::boot_id())?.0);
        }
        Ok(Heap::open_or_create(region)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Perdura;

    #[test]
    fn a_journal_is_refused_as_long_as_no_call_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let Err(error) = Perdura::open(Options::new(&path).domain(DomainRequest::Journal)) else {
            panic!("it was opened");
        };
        assert!(error.to_string().contains("not offered by the library"), "{error}");
        assert!(!path.exists());
    }
}
