//! Reads around a media error, and overwrites it.
//!
//! A file system refuses to read a whole page of persistent memory if one of its lines is known to
//! be bad; before that is known, it copies up to the bad line. So a page is read in one piece, or
//! else sector by sector, or else line by line, and what the file refuses is read from the block
//! device below, which refuses only single sectors. Writing a whole page clears the error in the
//! medium if the platform can do that; otherwise the page gets another block of the file system.
//! That is only done for bad blocks: freeing the block of a page that a full file system refuses to
//! write would destroy its content.
//!
//! Only system calls: a signal handler calls this.

use crate::calls::{self, Call};
use crate::lines::LINE;
use crate::mapping::PAGE;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;

const SECTOR: u64 = 512;
/// Flags of extents whose place is unknown, or not plain.
const UNUSABLE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200;
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

/// `struct fiemap` with space for one extent.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    logical: u64,
    physical: u64,
    extent: u64,
    reserved64: [u64; 2],
    extent_flags: u32,
    reserved32: [u32; 3],
}

const _: () = assert!(size_of::<Fiemap>() == 32 + 56);

/// Returns a private page of zeros.
pub(crate) fn blank_page() -> Option<*mut u8> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE as usize, prot, flags, -1, 0) };
    (page != libc::MAP_FAILED).then_some(page.cast())
}

/// Copies the readable lines of the page at `at` of `file` to `to`, a blank page; returns the
/// others as bits.
pub(crate) fn copy_page(file: i32, device: i32, at: u64, to: *mut u8) -> u64 {
    if read(file, at, to, PAGE) {
        return 0;
    }
    let mut lost = 0;
    for sector in (0..PAGE).step_by(SECTOR as usize) {
        let to_sector = to.wrapping_add(sector as usize);
        if read(file, at + sector, to_sector, SECTOR) {
            continue;
        }
        if let Some(place) = place_on_device(file, device, at + sector)
            && read(device, place, to_sector, SECTOR)
        {
            continue;
        }
        for line in (sector..sector + SECTOR).step_by(LINE as usize) {
            let to_line = to.wrapping_add(line as usize);
            if !read(file, at + line, to_line, LINE) {
                // SAFETY: a line inside the blank page, which this thread alone knows.
                unsafe { to_line.write_bytes(0, LINE as usize) };
                lost |= 1 << (line / LINE);
            }
        }
    }
    lost
}

/// Reads exactly this many bytes.
fn read(file: i32, at: u64, to: *mut u8, len: u64) -> bool {
    // SAFETY: `to` has space for this many bytes, inside a page that this thread alone knows.
    let got = unsafe { libc::pread(file, to.cast(), len as usize, at as libc::off_t) };
    got == len as isize
}

/// Returns the place of a byte of the file on its block device.
fn place_on_device(file: i32, device: i32, at: u64) -> Option<u64> {
    if device < 0 {
        return None;
    }
    let mut map = Fiemap { start: at, length: SECTOR, count: 1, ..Fiemap::default() };
    // SAFETY: the request fills the structure, which has space for the one extent that it
    // announces.
    let done = unsafe { libc::ioctl(file, FS_IOC_FIEMAP as _, &raw mut map) };
    let inside = map.logical <= at && at + SECTOR <= map.logical.saturating_add(map.extent);
    let usable = done == 0 && map.mapped == 1 && map.extent_flags & UNUSABLE == 0 && inside;
    usable.then(|| map.physical + (at - map.logical))
}

/// Moves a private page to `to`, replacing what is mapped there.
pub(crate) fn put_page(page: *mut u8, to: *mut libc::c_void) -> bool {
    let (len, flags) = (PAGE as usize, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
    // SAFETY: `page` is a mapping of one page that nobody else knows; `to` is a page of a watched
    // region, whose addresses stay valid and hold the same bytes as far as they can be read.
    let moved = unsafe { libc::mremap(page.cast(), len, len, flags, to) };
    moved == to
}

/// Makes a page read only. Best effort: if it fails, the page was not mapped and nobody stores into
/// it.
pub(crate) fn protect(address: *mut libc::c_void) {
    // SAFETY: a page of a watched region; a thread that stores into it waits in the signal handler.
    unsafe { libc::mprotect(address, PAGE as usize, libc::PROT_READ) };
}

/// Writes the private page at `address`, which is read only, over the page at `at` of `file`, and
/// maps the file there again. `is_bad` tells whether lines of the page could not be read.
pub(crate) fn write_back(
    file: i32,
    at: u64,
    address: *mut libc::c_void,
    flags: i32,
    is_bad: bool,
) -> io::Result<()> {
    let done = |result: bool| if result { Ok(()) } else { Err(io::Error::last_os_error()) };
    let len = PAGE as usize;
    let written = write_page(file, at, address).or_else(|error| {
        // If space is short, there may be no other block, and the old one is kept.
        let is_full = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
        if !is_bad || is_full {
            return Err(error);
        }
        other_block(file, at)?;
        write_page(file, at, address)
    });
    if written.is_err() {
        // SAFETY: a page of a watched region. It stays private, and may be written to again.
        unsafe { libc::mprotect(address, len, libc::PROT_READ | libc::PROT_WRITE) };
        return written;
    }
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the same page of the same file as before, with the bytes that the private page has.
    let mapped =
        unsafe { libc::mmap(address, len, prot, flags | libc::MAP_FIXED, file, at as libc::off_t) };
    done(mapped == address)
}

/// Gives the page at `at` of `file` another block, if writing to its own does not clear the error:
/// few platforms let the kernel do that. The hole is filled before its block can be given to
/// another file. If the system fails in between, the whole page is lost, which checksums reveal.
fn other_block(file: i32, at: u64) -> io::Result<()> {
    let fallocate = |call: Call, flags: i32| {
        calls::make(call, || {
            // SAFETY: a system call on an open descriptor; the bytes of the page are in the private
            // one.
            let done =
                unsafe { libc::fallocate(file, flags, at as libc::off_t, PAGE as libc::off_t) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    };
    fallocate(Call::Punch, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)?;
    calls::stored(at, PAGE);
    fallocate(Call::Allocate, libc::FALLOC_FL_KEEP_SIZE)
}

/// Writes and syncs a page, and reads it back: if the medium did not accept it, it is not mapped
/// again.
fn write_page(file: i32, at: u64, from: *const libc::c_void) -> io::Result<()> {
    // A write that ends before a bad sector is short; the next one reports why.
    let mut done = 0;
    while done < PAGE {
        calls::make(Call::Write, || {
            let rest = from.wrapping_byte_add(done as usize);
            let (len, to) = ((PAGE - done) as usize, (at + done) as libc::off_t);
            // SAFETY: the rest of a whole page that nobody writes to.
            match unsafe { libc::pwrite(file, rest, len, to) } {
                -1 => Err(io::Error::last_os_error()),
                0 => Err(io::ErrorKind::WriteZero.into()),
                wrote => {
                    done += wrote as u64;
                    Ok(())
                }
            }
        })?;
    }
    calls::stored(at, PAGE);
    calls::sync(0, u64::MAX, || {
        // SAFETY: a system call on an open descriptor.
        let done = unsafe { libc::fdatasync(file) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    })?;
    let mut back = [0u8; PAGE as usize];
    // A page that cannot be read back was not accepted.
    if read(file, at, back.as_mut_ptr(), PAGE) { Ok(()) } else { Err(Errno::IO.into()) }
}

/// Returns the block device of a file, opened for reading past the page cache; -1 if that is not
/// allowed.
pub(crate) fn block_device(file: &File) -> i32 {
    let open = || -> io::Result<i32> {
        let device = file.metadata()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let uevent = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent"))?;
        let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let name = name.ok_or(io::ErrorKind::NotFound)?;
        let device = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(format!("/dev/{name}"))?;
        // SAFETY: duplicates a descriptor that is open; the caller owns the new one.
        Ok(unsafe { libc::fcntl(device.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) })
    };
    open().unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_lines_around_a_loss_are_copied() {
        let check = |len: u64, at: u64, lost: u64| {
            let mut file = tempfile::tempfile().expect("a file");
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8 | 1).collect();
            file.write_all(&bytes).expect("free memory");
            let page = blank_page().expect("memory");
            assert_eq!(copy_page(file.as_raw_fd(), -1, at, page), lost, "{len} {at}");
            for line in 0..PAGE / LINE {
                for byte in line * LINE..(line + 1) * LINE {
                    // SAFETY: inside the page.
                    let found = unsafe { *page.wrapping_add(byte as usize) };
                    let expected =
                        bytes.get((at + byte) as usize).filter(|_| lost & 1 << line == 0);
                    assert_eq!(found, expected.copied().unwrap_or(0));
                }
            }
        };
        check(PAGE, 0, 0);
        check(2 * PAGE, PAGE, 0);
        check(PAGE, PAGE, u64::MAX);
        check(64, 0, u64::MAX << 1);
        check(PAGE + 1000, PAGE, u64::MAX << 15);
    }

    #[test]
    fn a_file_on_a_disk_reports_its_device_or_none() {
        let file = tempfile::tempfile().expect("a file");
        let device = block_device(&file);
        if device >= 0 {
            // SAFETY: opened on the line before, and belongs to nobody else.
            unsafe { libc::close(device) };
        }
    }
}
