//! A file on the medium, as one method sees it: a part of it for each thread.
//!
//! The file's name is removed as soon as the file is open, so that nothing is left whatever ends
//! the program, even kill -9. The whole file is allocated before anything is measured, and written
//! unless it is mapped: a block that was never written may have no place on a disk, and reading it
//! would measure the file system's metadata instead.

use super::medium::Medium;
use super::method::Method;
use super::pattern::Operation;
use crate::machine;
use crate::results::FileError;
use pmem::{DomainRequest, MapOptions, Partition, Region};
use rustix::fs::OFlags;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An alignment of addresses, offsets and lengths that suffices for direct access on any device.
pub(crate) const ALIGNMENT: usize = 4096;

/// The bytes per write when a file is filled.
const CHUNK: usize = 1 << 20;

/// One thread's part of a file.
pub(crate) enum Target {
    Mapped { partition: Partition, method: Method },
    File { file: Arc<File>, from: u64, len: u64, method: Method },
}

/// Why there is no target.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The medium does not support the method, for this reason.
    NotHere(String),
    /// The study failed.
    Failed(FileError),
}

impl From<FileError> for Refusal {
    fn from(error: FileError) -> Refusal {
        Refusal::Failed(error)
    }
}

/// Returns a new file of `size` bytes, divided into a part for each thread.
pub(crate) fn open(
    medium: &Medium,
    method: Method,
    size: u64,
    threads: usize,
) -> Result<Vec<Target>, Refusal> {
    let unknown = FileError::step(&medium.dir, "ask for free space");
    let free = machine::free_space(&medium.dir).map_err(unknown)?;
    if free < size {
        let why = format!("the file of {size} bytes does not fit, {free} are free");
        return Err(FileError::of(&medium.dir)(why).into());
    }
    match method {
        Method::Memcpy | Method::Clwb | Method::Nt | Method::Msync => {
            let partitions = map(medium, method, size)?.into_partitions(threads);
            Ok(partitions
                .into_iter()
                .map(|partition| Target::Mapped { partition, method })
                .collect())
        }
        Method::Fdatasync | Method::Direct => {
            let file = Arc::new(create(medium, method, size)?);
            let len = size / threads as u64 / ALIGNMENT as u64 * ALIGNMENT as u64;
            let part = |n| Target::File { file: Arc::clone(&file), from: n * len, len, method };
            Ok((0..threads as u64).map(part).collect())
        }
    }
}

/// Returns a region over a file whose name has been removed.
pub(crate) fn map(medium: &Medium, method: Method, size: u64) -> Result<Region, FileError> {
    let domain = match method {
        Method::Msync => DomainRequest::Msync,
        _ => DomainRequest::Clwb,
    };
    let file = tempfile::NamedTempFile::new_in(&medium.dir)
        .map_err(FileError::step(&medium.dir, "create a file"))?;
    let options = MapOptions { domain, emulate: true, ..MapOptions::new(size) };
    let region = Region::open(file.path(), &options).map_err(FileError::of(&medium.dir))?;
    file.close().map_err(FileError::step(&medium.dir, "remove the file's name"))?;
    region.grow(size).map_err(FileError::of(&medium.dir))?;
    Ok(region)
}

/// Returns a filled file without a name.
fn create(medium: &Medium, method: Method, size: u64) -> Result<File, Refusal> {
    if method == Method::Direct && medium.in_memory {
        let reason = "the file system is in memory: there is no cache to go past";
        return Err(Refusal::NotHere(reason.into()));
    }
    let file = tempfile::tempfile_in(&medium.dir)
        .map_err(FileError::step(&medium.dir, "create a file"))?;
    let filling = vec![0x5a; CHUNK];
    for at in (0..size).step_by(CHUNK) {
        let len = (size - at).min(CHUNK as u64) as usize;
        file.write_all_at(&filling[..len], at)
            .map_err(FileError::step(&medium.dir, "fill the file"))?;
    }
    file.sync_all().map_err(FileError::step(&medium.dir, "sync the file"))?;
    if method == Method::Direct
        && let Err(errno) = rustix::fs::fcntl_setfl(&file, OFlags::DIRECT)
    {
        return Err(Refusal::NotHere(format!("the file system refuses O_DIRECT: {errno}")));
    }
    Ok(file)
}

impl Target {
    /// Returns the length of the part in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Target::Mapped { partition, .. } => partition.len(),
            Target::File { len, .. } => *len,
        }
    }

    /// Carries out an operation with the first bytes of a buffer. When it returns, a write has got
    /// as far as the method takes it.
    #[inline]
    pub(crate) fn carry_out(&mut self, op: Operation, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = &mut buffer[..op.len];
        match self {
            Target::Mapped { partition, method } if op.write => {
                store(partition, *method, op.offset, bytes)
            }
            Target::Mapped { partition, .. } => {
                bytes.copy_from_slice(partition.bytes(op.offset, op.len));
                black_box(bytes);
                Ok(())
            }
            Target::File { file, from, method, .. } if op.write => {
                file.write_all_at(bytes, *from + op.offset)?;
                if *method == Method::Fdatasync { file.sync_data() } else { Ok(()) }
            }
            Target::File { file, from, .. } => file.read_exact_at(bytes, *from + op.offset),
        }
    }
}

#[inline]
fn store(partition: &mut Partition, method: Method, offset: u64, bytes: &[u8]) -> io::Result<()> {
    match method {
        Method::Nt => partition.stream(offset, bytes),
        _ => partition.store(offset, bytes),
    }
    match method {
        Method::Clwb | Method::Msync => {
            partition.flush(offset, bytes.len());
            partition.fence();
        }
        Method::Nt => partition.fence(),
        Method::Memcpy | Method::Fdatasync | Method::Direct => {}
    }
    if partition.failed() { Err(io::Error::other("a fence failed")) } else { Ok(()) }
}

/// A buffer that is aligned for direct access.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Buffer {
        let bytes = vec![0xa5; len + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer { bytes, from, len }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medium() -> (tempfile::TempDir, Medium) {
        let dir = tempfile::tempdir().expect("a directory");
        let medium = Medium::of(dir.path()).expect("a medium");
        (dir, medium)
    }

    #[test]
    fn every_method_reads_what_it_wrote() {
        let (dir, medium) = medium();
        for method in Method::ALL {
            let mut targets = match open(&medium, method, 1 << 20, 2) {
                Ok(targets) => targets,
                Err(Refusal::NotHere(_)) => continue,
                Err(refusal) => panic!("{method:?}: {refusal:?}"),
            };
            assert_eq!(targets.iter().map(Target::len).sum::<u64>(), 1 << 20);
            let mut buffer = Buffer::new(4096);
            for (n, target) in targets.iter_mut().enumerate() {
                buffer.as_mut().fill(n as u8 + 1);
                let op = Operation { write: true, offset: 8192, len: 4096 };
                target.carry_out(op, buffer.as_mut()).expect("written");
            }
            for (n, target) in targets.iter_mut().enumerate() {
                let op = Operation { write: false, offset: 8192, len: 4096 };
                target.carry_out(op, buffer.as_mut()).expect("read");
                let expect = n as u8 + 1;
                assert!(buffer.as_mut().iter().all(|byte| *byte == expect), "{method:?}");
            }
            assert_eq!(dir.path().read_dir().expect("a directory").count(), 0, "{method:?}");
        }
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let (_dir, medium) = medium();
        for method in [Method::Clwb, Method::Fdatasync] {
            match open(&medium, method, 1 << 60, 1) {
                Err(Refusal::Failed(error)) => {
                    assert!(error.to_string().contains("does not fit"), "{error}");
                }
                other => panic!("{:?}", other.err()),
            }
        }
    }

    #[test]
    fn direct_access_to_memory_is_not_possible() {
        let Ok(medium) = Medium::of(std::path::Path::new("/dev/shm")) else { return };
        let refused = open(&medium, Method::Direct, 1 << 20, 1).err();
        assert!(matches!(refused, Some(Refusal::NotHere(_))), "{refused:?}");
    }

    #[test]
    fn buffers_are_aligned() {
        for len in [512, 4096, 512 << 10] {
            let mut buffer = Buffer::new(len);
            assert_eq!(buffer.as_mut().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buffer.as_mut().len(), len);
        }
    }
}
