//! Address space, and the mappings in it.
//!
//! The whole reserved length is mapped once: pages beyond the file's end are mere addresses, and
//! become usable when the file grows under them. So an address that was handed out stays valid for
//! the region's life. The start is aligned for huge pages, which device DAX requires.

use crate::calls;
use memmap2::{MmapMut, MmapOptions};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a page, the unit of `msync` and of faults.
pub(crate) const PAGE: u64 = 4096;

/// The alignment of a mapping's start and length.
pub(crate) const HUGE: u64 = 2 << 20;

/// Marks simulated memory that another value releases.
#[cfg(feature = "sim")]
const SHARED: usize = usize::MAX;

/// A range of addresses that is released when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: *mut u8,
    len: u64,
    /// The range to unmap: larger than `base` and `len`, because of the alignment.
    raw: (*mut core::ffi::c_void, usize),
    /// A mapping that releases itself.
    copy: Option<MmapMut>,
}

// SAFETY: a mapping is a range of addresses of the process, bound to no thread.
unsafe impl Send for Mapping {}
// SAFETY: its methods do not access the mapped bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes of address space, rounded up, at an aligned start, with nothing in it.
    pub(crate) fn reserve(len: u64, align: u64) -> io::Result<Mapping> {
        let align = align.max(HUGE);
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = len.max(1).checked_next_multiple_of(align).ok_or_else(too_large)?;
        let raw_len = len.checked_add(align).ok_or_else(too_large)?;
        let raw_len = usize::try_from(raw_len).map_err(|_| too_large())?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let raw =
            unsafe { mmap_anonymous(std::ptr::null_mut(), raw_len, ProtFlags::empty(), flags)? };
        let skip = (raw as u64).next_multiple_of(align) - raw as u64;
        Ok(Mapping {
            base: raw.cast::<u8>().wrapping_add(skip as usize),
            len,
            raw: (raw, raw_len),
            copy: None,
        })
    }

    /// Maps `file` from its start over the whole range, with `MAP_SYNC` if `sync`: only if
    /// [`accepts_sync`] succeeded. A file system that refuses does so after the kernel has emptied
    /// the range, and another thread's mapping may end up there.
    pub(crate) fn put_file(&self, file: &File, sync: bool) -> rustix::io::Result<()> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = file_flags(sync) | MapFlags::FIXED;
        // SAFETY: the range belongs to this mapping, and nobody has been given an address in it
        // yet.
        unsafe { mmap(self.base.cast(), self.len as usize, prot, flags, file, 0)? };
        self.advise_huge();
        Ok(())
    }

    /// Maps `file` from its start over the whole range, privately: stores stay in memory, page by
    /// page, and memory is claimed only when needed.
    pub(crate) fn put_private(&self, file: &File) -> rustix::io::Result<()> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range belongs to this mapping, and nobody has been given an address in it
        // yet.
        unsafe { mmap(self.base.cast(), self.len as usize, prot, flags, file, 0)? };
        Ok(())
    }

    /// Maps zeros over `[from, to)`, whole pages, with huge pages if the kernel has them.
    ///
    /// # Safety
    /// Nobody has been given an address in the range yet.
    pub(crate) unsafe fn put_zeros(&self, from: u64, to: u64) -> rustix::io::Result<()> {
        debug_assert!(from.is_multiple_of(PAGE) && from <= to && to <= self.len);
        let at: *mut core::ffi::c_void = self.base.wrapping_add(from as usize).cast();
        let len = (to - from) as usize;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: a range of this mapping, in which nobody has an address (caller).
        unsafe { mmap_anonymous(at, len, prot, flags)? };
        // SAFETY: the advice changes no contents, and the range is this mapping's.
        let _ = unsafe { madvise(at, len, Advice::LinuxHugepage) };
        Ok(())
    }

    /// Returns a private mapping of a file's bytes: stores stay in memory.
    pub(crate) fn copy_on_write(file: &File, len: u64) -> io::Result<Mapping> {
        let whole = usize::try_from(len.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut options = MmapOptions::new();
        options.len(whole).no_reserve_swap();
        // SAFETY: bytes of a private mapping that another process changes meanwhile may or may not
        // show here. The caller holds a lock on the file that keeps every writer of pools away, and
        // words are read as atomics.
        let mut copy = unsafe { options.map_copy(file)? };
        let base = copy.as_mut_ptr();
        Ok(Mapping { base, len, raw: (std::ptr::null_mut(), 0), copy: Some(copy) })
    }

    /// Maps zeros over the whole range; memory is claimed only when touched.
    pub(crate) fn put_anonymous(&self) -> io::Result<()> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range belongs to this mapping, and nobody has been given an address in it
        // yet.
        unsafe { mmap_anonymous(self.base.cast(), self.len as usize, prot, flags)? };
        self.advise_huge();
        Ok(())
    }

    /// Allocates zeroed memory; tests create and drop thousands of these.
    #[cfg(feature = "sim")]
    pub(crate) fn simulated(len: usize) -> Mapping {
        let layout = simulated_layout(len);
        // SAFETY: the layout is not of size 0.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        assert!(!base.is_null(), "no memory for a simulated region of {len} bytes");
        Mapping { base, len: len as u64, raw: (std::ptr::null_mut(), 0), copy: None }
    }

    /// Returns the same memory again, for somebody who keeps its owner alive.
    #[cfg(feature = "sim")]
    pub(crate) fn shared(&self) -> Mapping {
        Mapping { base: self.base, len: self.len, raw: (std::ptr::null_mut(), SHARED), copy: None }
    }

    /// Returns true if it is a private copy of a file.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Returns the first byte.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the number of bytes of address space.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Huge pages avoid the address translation misses of a large index. Only advice: a refusal
    /// changes nothing.
    fn advise_huge(&self) {
        // SAFETY: the advice changes no contents, and the range is this mapping's.
        let _ = unsafe { madvise(self.base.cast(), self.len as usize, Advice::LinuxHugepage) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.copy.is_some() {
            return;
        }
        #[cfg(feature = "sim")]
        if self.raw.0.is_null() {
            if self.raw.1 == SHARED {
                return;
            }
            // SAFETY: allocated by `simulated` with the same layout.
            unsafe { std::alloc::dealloc(self.base, simulated_layout(self.len as usize)) };
            return;
        }
        // SAFETY: the range was mapped by `reserve`, and its owner, who handed out addresses, is
        // gone.
        let _ = unsafe { munmap(self.raw.0, self.raw.1) };
    }
}

/// Returns the flags for mapping a file.
pub(crate) fn file_flags(sync: bool) -> MapFlags {
    if sync && !calls::plays_persistent_memory() {
        MapFlags::SHARED_VALIDATE | MapFlags::SYNC
    } else {
        MapFlags::SHARED
    }
}

/// Checks whether the kernel maps a file with `MAP_SYNC`, with a temporary mapping at an address of
/// the kernel's choice.
pub(crate) fn accepts_sync(file: &File) -> rustix::io::Result<()> {
    if calls::plays_persistent_memory() {
        return Ok(());
    }
    // Read only, so that it also works for a file that is only inspected.
    let prot = ProtFlags::READ;
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    let len = PAGE as usize;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, file, 0)? };
    // SAFETY: mapped the line before, and nobody has been given an address in it.
    unsafe { munmap(at, len) }
}

#[cfg(feature = "sim")]
fn simulated_layout(len: usize) -> std::alloc::Layout {
    let len = len.max(1).next_multiple_of(64);
    std::alloc::Layout::from_size_align(len, 64).expect("a simulated region fits into memory")
}

/// The properties of a DAX device in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DaxDevice {
    pub(crate) size: u64,
    pub(crate) align: u64,
}

/// Looks up an open character device; `None` if it is not a DAX device.
pub(crate) fn dax_device(sysfs: &Path, device: &File) -> io::Result<Option<DaxDevice>> {
    let number = device.metadata()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    dax_device_in(&sysfs.join(format!("dev/char/{major}:{minor}")))
}

fn dax_device_in(entry: &Path) -> io::Result<Option<DaxDevice>> {
    let subsystem = fs::canonicalize(entry.join("subsystem")).ok();
    if subsystem.and_then(|path| Some(path.file_name()? == "dax")) != Some(true) {
        return Ok(None);
    }
    let size = read_number(&entry.join("size"))?;
    // Older kernels do not report it: 2 MiB is then the only alignment in use.
    let align = read_number(&entry.join("align")).unwrap_or(HUGE);
    Ok(Some(DaxDevice { size, align }))
}

fn read_number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| {
        let message = format!("{}: expected a number, found {:?}", path.display(), text.trim());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_and_costs_no_memory() {
        let check = |len, align, expect_len| {
            let mapping = Mapping::reserve(len, align).unwrap();
            assert_eq!(mapping.len(), expect_len);
            assert_eq!(mapping.base() as u64 % align.max(HUGE), 0);
        };
        check(1, 0, HUGE);
        check(HUGE + 1, HUGE, 2 * HUGE);
        check(1 << 40, HUGE, 1 << 40);
        check(1, 1 << 30, 1 << 30);
        assert!(Mapping::reserve(u64::MAX, HUGE).is_err());
    }

    #[test]
    fn sysfs_reports_a_dax_device_and_its_size() {
        let sysfs = tempfile::tempdir().unwrap();
        let make = |number: &str, subsystem: &str, attributes: &[(&str, &str)]| {
            let entry = sysfs.path().join("dev/char").join(number);
            let class = sysfs.path().join("bus").join(subsystem);
            fs::create_dir_all(&class).unwrap();
            fs::create_dir_all(&entry).unwrap();
            std::os::unix::fs::symlink(class, entry.join("subsystem")).unwrap();
            for (name, text) in attributes {
                fs::write(entry.join(name), text).unwrap();
            }
            entry
        };
        let dax = make("252:0", "dax", &[("size", "1073741824\n"), ("align", "2097152\n")]);
        assert_eq!(dax_device_in(&dax).unwrap(), Some(DaxDevice { size: 1 << 30, align: HUGE }));
        let old = make("252:1", "dax", &[("size", "4194304\n")]);
        assert_eq!(dax_device_in(&old).unwrap(), Some(DaxDevice { size: 4 << 20, align: HUGE }));
        let tty = make("4:0", "tty", &[]);
        assert_eq!(dax_device_in(&tty).unwrap(), None);
        assert_eq!(dax_device_in(&sysfs.path().join("dev/char/9:9")).unwrap(), None);
        let torn = make("252:2", "dax", &[("size", "many\n")]);
        assert!(dax_device_in(&torn).unwrap_err().to_string().contains("found \"many\""));
    }
}
