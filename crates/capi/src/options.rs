//! How to open a store.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use perdura::{DomainRequest, Durability, Options};

use crate::bytes::needed;
use crate::status::{PerduraStatus, guarded};

/// The persistence domain that the medium offers: persistent memory, or a journal on a disk.
pub const PERDURA_DOMAIN_AUTO: i32 = 0;
/// A journal, also on persistent memory.
pub const PERDURA_DOMAIN_JOURNAL: i32 = 1;
/// Calls that returned survive the end of the process, even kill -9, but no power loss. On any
/// file.
pub const PERDURA_DOMAIN_PROCESS: i32 = 2;

/// How to open a store: from perdura_options_new, released by perdura_options_free.
#[derive(Debug)]
pub struct PerduraOptions(Options);

impl PerduraOptions {
    pub(crate) fn options(&self) -> Options {
        self.0.clone()
    }

    fn change(&mut self, change: impl FnOnce(Options) -> Options) -> PerduraStatus {
        self.0 = change(self.0.clone());
        PerduraStatus::Ok
    }
}

/// Returns the options of a store in a file, which is created if it does not exist; null if the
/// path is a null pointer with a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_options_new(
    path: *const u8,
    path_len: usize,
) -> Option<Box<PerduraOptions>> {
    let mut made = None;
    guarded(|| {
        let path = OsStr::from_bytes(bytes!(path, path_len));
        made = Some(Box::new(PerduraOptions(Options::new(path))));
        Ok(PerduraStatus::Ok)
    });
    made
}

/// Returns the options of a store in DRAM, which ends with the process.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_options_volatile() -> Option<Box<PerduraOptions>> {
    Some(Box::new(PerduraOptions(Options::volatile())))
}

/// Sets how many bytes the store may grow to; 4 GiB without it.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_options_limit(
    options: Option<&mut PerduraOptions>,
    bytes: u64,
) -> PerduraStatus {
    guarded(|| Ok(needed(options)?.change(|options| options.limit(bytes))))
}

/// Refuses to open a store that does not exist, instead of creating it.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_options_existing(options: Option<&mut PerduraOptions>) -> PerduraStatus {
    guarded(|| Ok(needed(options)?.change(|options| options.create(false))))
}

/// Sets the persistence domain: one of PERDURA_DOMAIN_*.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_options_domain(
    options: Option<&mut PerduraOptions>,
    domain: i32,
) -> PerduraStatus {
    guarded(|| {
        let domain = match domain {
            PERDURA_DOMAIN_AUTO => DomainRequest::Auto,
            PERDURA_DOMAIN_JOURNAL => DomainRequest::Journal,
            PERDURA_DOMAIN_PROCESS => DomainRequest::Process,
            _ => return Ok(PerduraStatus::InvalidArgument),
        };
        Ok(needed(options)?.change(|options| options.domain(domain)))
    })
}

/// Lets calls return when the kernel has their writes, which are synced this often, if the store
/// has a journal: a power loss may take the writes since the last sync. Without this a call returns
/// when its writes are on the disk. 0 syncs only by perdura_flush, and in the background.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_options_sync_every(
    options: Option<&mut PerduraOptions>,
    milliseconds: u64,
) -> PerduraStatus {
    guarded(|| {
        let durability = match milliseconds {
            0 => Durability::Os,
            every => Durability::Interval(Duration::from_millis(every)),
        };
        Ok(needed(options)?.change(|options| options.durability(durability)))
    })
}

/// Releases options.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_options_free(options: Option<Box<PerduraOptions>>) {
    drop(options);
}
