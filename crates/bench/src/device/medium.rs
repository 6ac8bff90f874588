//! The medium of a directory, as far as durability is concerned.
//!
//! The kernel decides, as it does for the server: only persistent memory accepts `MAP_SYNC`. On
//! every other medium, whatever its file system, methods that write with instructions alone use
//! DRAM that emulates persistent memory. A file system in memory keeps nothing over a power loss.

use super::method::Method;
use crate::machine;
use crate::results::FileError;
use pmem::{Domain, DomainRequest, MapError, MapOptions, Region};
use std::path::{Path, PathBuf};

/// A directory and its medium.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Medium {
    pub(crate) dir: PathBuf,
    /// The domain of persistent memory; `None` on other media.
    persistent: Option<Domain>,
    /// Whether the file system is in memory.
    pub(crate) in_memory: bool,
}

impl Medium {
    /// Detects the medium of a directory, with a temporary file.
    pub(crate) fn of(dir: &Path) -> Result<Medium, FileError> {
        let failed = |step| FileError::step(dir, step);
        let metadata = std::fs::metadata(dir).map_err(failed("look at the directory"))?;
        if !metadata.is_dir() {
            return Err(FileError::of(dir)("not a directory"));
        }
        let in_memory = machine::place("", dir).medium == machine::DRAM;
        let file = tempfile::NamedTempFile::new_in(dir).map_err(failed("create a file"))?;
        let options = MapOptions { domain: DomainRequest::Auto, ..MapOptions::new(1) };
        let persistent = match Region::open(file.path(), &options) {
            Ok(region) => Some(region.domain()),
            Err(MapError::NoMapSync { .. }) => None,
            Err(cause) => return Err(FileError::of(dir)(cause)),
        };
        Ok(Medium { dir: dir.to_owned(), persistent, in_memory })
    }

    /// Returns the persistence domain that holds here without emulation.
    pub(crate) fn domain(&self) -> Domain {
        match (self.persistent, self.in_memory) {
            (Some(domain), _) => domain,
            (None, true) => Domain::Process,
            (None, false) => Domain::Msync,
        }
    }

    /// Returns true if a method measures DRAM instead of persistent memory.
    pub(crate) fn emulates(&self, method: Method) -> bool {
        self.persistent.is_none() && (self.in_memory || method.is_instructions())
    }

    /// Returns true if a write by this method is durable when it ends.
    pub(crate) fn keeps(&self, method: Method) -> bool {
        let caches_count = self.persistent == Some(Domain::Eadr);
        !self.emulates(method) && (method.waits() || (caches_count && method == Method::Memcpy))
    }

    /// Returns true if every method measures DRAM instead of persistent memory.
    pub(crate) fn is_emulated(&self) -> bool {
        self.persistent.is_none() && self.in_memory
    }

    /// Returns what a write survives here, in words that are printed next to the figures.
    pub(crate) fn note(&self) -> String {
        let text = match (self.persistent, self.in_memory) {
            (Some(Domain::Eadr), _) => {
                "persistent memory: a fence is enough, the platform flushes the caches at power loss"
            }
            (Some(_), _) => "persistent memory: durable after flush and fence",
            (None, true) => {
                "EMULATED: DRAM in the place of persistent memory; flushes and fences run, \
                 and nothing survives a power loss"
            }
            (None, false) => {
                "a block device: durable after msync or fdatasync; what instructions alone write is in the page \
                 cache, DRAM in the place of persistent memory, and those rows are EMULATED"
            }
        };
        text.to_owned()
    }

    /// Returns the file system and its device: `ext4 on /dev/vda (virtual disk)`.
    pub(crate) fn name(&self) -> String {
        let place = machine::place("", &self.dir);
        match place.device.starts_with('/') {
            true => format!("{} on {} ({})", place.file_system, place.device, place.medium),
            false => format!("{} ({})", place.file_system, place.medium),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium(persistent: Option<Domain>, in_memory: bool) -> Medium {
        Medium { dir: PathBuf::new(), persistent, in_memory }
    }

    #[test]
    fn what_is_emulated_is_never_called_durable() {
        for medium in [
            medium(None, true),
            medium(None, false),
            medium(Some(Domain::Clwb), false),
            medium(Some(Domain::Eadr), false),
        ] {
            for method in Method::ALL {
                assert!(
                    !(medium.emulates(method) && medium.keeps(method)),
                    "{medium:?} {method:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_durable_when() {
        let check = |persistent, in_memory, expect: &[Method]| {
            let medium = medium(persistent, in_memory);
            let kept = Method::ALL.into_iter().filter(|method| medium.keeps(*method));
            assert_eq!(kept.collect::<Vec<_>>(), expect, "{medium:?}");
        };
        use Method::*;
        check(None, true, &[]);
        check(None, false, &[Msync, Fdatasync]);
        check(Some(Domain::Clwb), false, &[Clwb, Nt, Msync, Fdatasync]);
        check(Some(Domain::Eadr), false, &[Memcpy, Clwb, Nt, Msync, Fdatasync]);
    }

    #[test]
    fn a_file_system_in_memory_is_found_out() {
        let shm = Path::new("/dev/shm");
        if shm.is_dir() {
            let medium = Medium::of(shm).expect("a medium");
            assert!(medium.in_memory && medium.is_emulated() && medium.note().contains("EMULATED"));
            assert_eq!(medium.domain(), Domain::Process);
            assert_eq!(medium.name(), "tmpfs (DRAM)");
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = Medium::of(file.path()).expect_err("a file is no directory").to_string();
        assert!(error.contains("not a directory"), "{error}");
        let error = Medium::of(&file.path().with_extension("gone")).expect_err("nothing there");
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
