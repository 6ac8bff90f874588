//! Grows the file under a mapping.
//!
//! A region must never be longer than the space that the medium has really provided: touching a
//! page that the file system cannot supply kills the process. So space is allocated, and its
//! failure reported, before the length grows. On persistent memory and in the `msync` domain zeros
//! are written and synced too: the first touch of an allocated but unwritten extent would commit
//! the file system's journal in the middle of a client's write.

use crate::calls::{self, Call};
use crate::domain::Domain;
use crate::error::GrowError;
use crate::fault_points::FaultPoint;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, ftruncate};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of zeros written at once.
const CHUNK: usize = 1 << 20;

/// The operations on a file that growing it needs.
pub(crate) trait Backing {
    /// Allocates `[from, to)` at its end.
    fn allocate(&self, from: u64, to: u64) -> rustix::io::Result<()>;
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Makes its bytes and its length durable.
    fn sync(&self) -> rustix::io::Result<()>;
    /// Shortens it, if possible.
    fn cut(&self, len: u64);
}

impl Backing for File {
    fn allocate(&self, from: u64, to: u64) -> rustix::io::Result<()> {
        calls::make(Call::Allocate, || fallocate(self, FallocateFlags::empty(), from, to - from))
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        calls::make(Call::Write, || self.write_all_at(bytes, at))
    }

    fn sync(&self) -> rustix::io::Result<()> {
        // All pages of the file, and its length.
        calls::sync(0, u64::MAX, || fdatasync(self))
    }

    fn cut(&self, len: u64) {
        let _ = calls::make(Call::Truncate, || ftruncate(self, len));
    }
}

/// Syncs a file.
type Sync<'s> = &'s dyn Fn(&dyn Backing) -> rustix::io::Result<()>;

/// Returns true if the file's content is to survive a power loss, so that its growth is synced.
pub(crate) fn is_synced(domain: Domain) -> bool {
    match domain {
        Domain::Process | Domain::Volatile => false,
        Domain::Clwb | Domain::Eadr | Domain::Msync | Domain::Journal => true,
    }
}

/// Extends `file` by the bytes `[old, new)`, all zeros, synced by `sync`; on failure the file keeps
/// its old length.
pub(crate) fn extend(
    file: &dyn Backing,
    domain: Domain,
    old: u64,
    new: u64,
    sync: Sync<'_>,
) -> Result<(), GrowError> {
    let grown = allocate(file, old, new, sync).and_then(|()| match is_synced(domain) {
        true => write_zeros(file, old, new, sync),
        false => Ok(()),
    });
    grown.map_err(|(step, errno)| {
        // Best effort: the caller keeps its old length either way, and opening tolerates a longer
        // file.
        file.cut(old);
        if errno.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) {
            GrowError::NoSpace { wanted: new }
        } else {
            GrowError::Io { wanted: new, step, source: errno }
        }
    })
}

pub(crate) type Failed = (&'static str, io::Error);

fn allocate(file: &dyn Backing, old: u64, new: u64, sync: Sync<'_>) -> Result<(), Failed> {
    match file.allocate(old, new) {
        // A file system without allocation in advance: writing zeros allocates.
        Err(Errno::OPNOTSUPP) => write_zeros(file, old, new, sync),
        other => other.map_err(|errno| ("allocate", errno.into())),
    }
}

pub(crate) fn write_zeros(
    file: &dyn Backing,
    old: u64,
    new: u64,
    sync: Sync<'_>,
) -> Result<(), Failed> {
    let zeros = vec![0; CHUNK];
    let mut at = old;
    while at < new {
        let len = (new - at).min(CHUNK as u64) as usize;
        file.write_at(&zeros[..len], at).map_err(|error| ("write zeros", error))?;
        calls::stored(at, len as u64);
        at += len as u64;
    }
    if !FaultPoint::SyncGrown.is_enabled() {
        return Ok(());
    }
    sync(file).map_err(|errno| ("sync zeros", errno.into()))
}

/// Maps `[at, at + len)` before anyone waits for it; if the kernel cannot, the first access does.
pub(crate) fn prefault(domain: Domain, at: *mut u8, len: usize) {
    let advice = match domain {
        Domain::Clwb | Domain::Eadr | Domain::Process => Advice::LinuxPopulateWrite,
        // Populating for writing would dirty every page, to be written at the next fence.
        Domain::Msync => Advice::LinuxPopulateRead,
        Domain::Volatile | Domain::Journal => return,
    };
    if domain != Domain::Msync {
        join_pages(at, len);
    }
    // SAFETY: populating changes no contents, and the caller's range is mapped and backed by the
    // file.
    let _ = unsafe { madvise(at.cast(), len, advice) };
}

/// Replaces small pages with huge ones in a tmpfs file, whose pages are small unless its mount says
/// otherwise: translating addresses in small pages takes a tenth of a server's time for SETs of 32
/// bytes, a fifth for 4 KiB (`docs/benchmarks.md`). Since Linux 6.1. A DAX file system, which maps
/// aligned extents by huge pages itself, and a file system on a disk refuse this, which changes
/// nothing.
fn join_pages(at: *mut u8, len: usize) {
    // SAFETY: no contents change, and the caller's range is mapped and backed by the file.
    unsafe { libc::madvise(at.cast(), len, libc::MADV_COLLAPSE) };
}
