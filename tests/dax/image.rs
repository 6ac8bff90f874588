//! The medium: a file of the host that serves the guest as persistent memory, or as a disk.
//!
//! QEMU maps it as memory, and writes to it as a disk, so that at every moment it holds what the
//! guest has stored there. A copy of it, taken
//! while the guest is stopped, is what a power cut at that moment would have left. The pool is
//! extracted from such a copy with the tools of ext4, which replay the journal as a mount would;
//! that needs no root. XFS has no such tool: the next boot checks its content.

use crate::place::{Setup, cache, program, run};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where a file system in persistent memory begins: before it the kernel keeps the metadata of the
/// namespace.
const OFFSET: u64 = 2 << 20;

/// Bytes that are copied at once, or skipped if they are zeros.
const CHUNK: usize = 64 << 10;

/// How the guest uses its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Ext4,
    Xfs,
    /// A DAX device, without a file system.
    Device,
    /// Ext4 on a disk, where a pool has a journal.
    Disk,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Ext4 | Format::Disk => "ext4",
            Format::Xfs => "xfs",
            Format::Device => "devdax",
        }
    }
}

/// A medium of the host.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) bytes: u64,
    /// Where the file system begins.
    offset: u64,
}

impl Image {
    /// Makes a new one; `namespace` reserves space for the kernel's metadata, which virtio-pmem and
    /// disks do not have.
    pub(crate) fn make(
        name: &str,
        format: Format,
        bytes: u64,
        namespace: bool,
    ) -> Result<Image, Setup> {
        let path = cache().join(format!("{name}.img"));
        let offset = if namespace { OFFSET } else { 0 };
        let image = Image { path, format, bytes, offset };
        File::create(&image.path)?.set_len(bytes)?;
        let inner = cache().join(format!("{name}.fs"));
        File::create(&inner)?.set_len(bytes - offset)?;
        // Stripes of 2 MiB, so that a large file can be mapped with huge pages.
        match format {
            Format::Ext4 | Format::Disk => {
                let options = ["-q", "-F", "-b", "4096", "-E", "stride=512,stripe_width=512"];
                run(program("mkfs.ext4").args(options).arg(&inner))?;
            }
            Format::Xfs => {
                let options = ["-q", "-f", "-d", "su=2m,sw=1,agcount=2", "-l", "su=32k"];
                run(program("mkfs.xfs").args(options).arg(&inner))?;
            }
            Format::Device => {}
        }
        let from = format!("if={}", inner.display());
        let to = format!("of={}", image.path.display());
        let seek = format!("seek={}", offset >> 20);
        let options = ["bs=1M", "conv=sparse,notrunc", "status=none"];
        run(program("dd").args([&from, &to, &seek]).args(options))?;
        fs::remove_file(&inner)?;
        Ok(image)
    }

    /// Returns where a copy of it may lie.
    pub(crate) fn place_of_copy(&self) -> PathBuf {
        self.path.with_extension("copy")
    }

    /// Copies the file system as it is now, without the bytes before it.
    pub(crate) fn copy(&self, to: &Path) -> Result<(), Setup> {
        let (from, to) = (File::open(&self.path)?, File::create(to)?);
        to.set_len(self.bytes - self.offset)?;
        let mut chunk = vec![0; CHUNK];
        let mut at = self.offset;
        while let Some((start, end)) = written(&from, at)? {
            at = start;
            while at < end {
                let part = &mut chunk[..CHUNK.min((end - at) as usize)];
                from.read_exact_at(part, at)?;
                if part.iter().any(|byte| *byte != 0) {
                    to.write_all_at(part, at - self.offset)?;
                }
                at += part.len() as u64;
            }
        }
        Ok(())
    }

    /// Writes at the start of the guest's device or file system, behind the guest's back.
    pub(crate) fn overwrite(&self, bytes: &[u8]) -> Result<(), Setup> {
        let file = File::options().write(true).open(&self.path)?;
        Ok(file.write_all_at(bytes, self.offset)?)
    }

    /// Returns the offsets of some bytes.
    pub(crate) fn find(&self, bytes: &[u8]) -> Result<Vec<u64>, Setup> {
        let file = File::open(&self.path)?;
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some((start, end)) = written(&file, at)? {
            let mut range = vec![0; (end - start) as usize];
            file.read_exact_at(&mut range, start)?;
            let places = range.windows(bytes.len()).enumerate();
            let equal = |(place, window): (usize, &[u8])| (window == bytes).then_some(place as u64);
            found.extend(places.filter_map(equal).map(|place| start + place));
            at = end;
        }
        Ok(found)
    }

    /// Reads some of its bytes.
    pub(crate) fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, Setup> {
        let mut bytes = vec![0; len];
        File::open(&self.path)?.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Converts an offset in the image to one on the guest's block device.
    pub(crate) fn inside(&self, at: u64) -> u64 {
        at - self.offset
    }
}

/// Returns the next range of a sparse file that has been written.
fn written(file: &File, from: u64) -> Result<Option<(u64, u64)>, Setup> {
    let start = match seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(io::Error::from(errno).into()),
    };
    Ok(Some((start, seek(file, SeekFrom::Hole(start)).map_err(io::Error::from)?)))
}

/// Extracts a file from a copy of an ext4 image, whose journal is replayed first. Returns false if
/// the file does not exist.
pub(crate) fn extract(copy: &Path, name: &str, to: &Path) -> Result<bool, Setup> {
    // By itself it repairs only what any crash leaves: counts of free blocks, and files that were
    // being deleted.
    let replay = program("e2fsck").args(["-f", "-p"]).arg(copy).output()?;
    if replay.status.code().is_none_or(|code| code > 1) {
        let said = String::from_utf8_lossy(&replay.stdout).into_owned();
        return Err(Setup(format!("the file system of the copy: {said}")));
    }
    let _ = fs::remove_file(to);
    run(program("debugfs").arg("-R").arg(format!("dump {name} {}", to.display())).arg(copy))?;
    Ok(to.exists())
}
