//! Writes past the page cache, many at a time: the kernel's asynchronous I/O (`io_submit`).
//!
//! Pages that a checkpoint writes are scattered, and the kernel needs several times as long to put
//! each into its page cache, and to find it there again for the disk, as to pass it to the disk at
//! once: more so where the cache keeps a file in large folios, all of whose blocks it examines for
//! each write. `O_DIRECT` alone would wait for the disk after each write.
//!
//! `io_uring` does the same, and more; but containers often forbid it.

#![allow(unsafe_code, reason = "the kernel writes from memory after the call has returned")]

use crate::mapping::PAGE;
use rustix::fs::{Mode, OFlags, fstatfs, open};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The maximum number of writes under way.
const DEPTH: usize = 64;
/// File systems that pass such a write to the disk and return, by their `statfs` number: ext4 and
/// XFS. Others accept it, and wait for the disk, one write after the other.
const ASYNCHRONOUS: [u32; 2] = [0xef53, 0x5846_5342];
/// `IOCB_CMD_PWRITE`.
const WRITE: u16 = 1;

/// A request, as the kernel defines it (`struct iocb`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    data: u64,
    key_and_flags: u64,
    operation: u16,
    priority: i16,
    file: RawFd,
    bytes: u64,
    len: u64,
    at: i64,
    reserved: u64,
    flags_and_event: u64,
}

/// The outcome of a request, as the kernel defines it (`struct io_event`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Event>() == 32);

/// A file that is open for writes past the page cache.
pub(super) struct DirectFile {
    file: File,
    context: Context,
}

/// The kernel's context of requests. Nothing is under way between two calls of its owner.
struct Context(libc::c_ulong);

/// A write: where to, and its bytes.
pub(super) type Write<'b> = (u64, &'b [u8]);

impl DirectFile {
    /// Opens a file once more; returns `None` if the system or the file system refuses that, or
    /// writes one by one.
    pub(super) fn of(file: &File) -> Option<DirectFile> {
        if !ASYNCHRONOUS.contains(&(fstatfs(file).ok()?.f_type as u32)) {
            return None;
        }
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(open(again, flags, Mode::empty()).ok()?);
        Some(DirectFile { file, context: Context::new().ok()? })
    }

    /// Returns true if a write can go past the page cache: address, offset and length are those of
    /// whole pages.
    pub(super) fn takes((at, bytes): Write<'_>) -> bool {
        let address = bytes.as_ptr() as u64;
        [address, at, bytes.len() as u64].iter().all(|number| number.is_multiple_of(PAGE))
    }

    /// Makes writes that can go past the page cache, in any order, and returns when the disk has
    /// them. Those that were refused, or not made in full, are passed to `otherwise`.
    pub(super) fn write(
        &mut self,
        writes: &[Write<'_>],
        otherwise: &mut dyn FnMut(Write<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        for group in writes.chunks(DEPTH) {
            let made = self.context.write(self.file.as_raw_fd(), group);
            for (write, is_made) in group.iter().zip(made) {
                if !is_made {
                    otherwise(*write)?;
                }
            }
        }
        Ok(())
    }
}

impl Context {
    fn new() -> io::Result<Context> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel stores one word, the context.
        let done = unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) };
        if done == 0 { Ok(Context(context)) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes up to [`DEPTH`] writes, and waits for them. Returns which were made in full.
    fn write(&mut self, file: RawFd, writes: &[Write<'_>]) -> [bool; DEPTH] {
        let mut requests = [Request::default(); DEPTH];
        for (n, (request, (at, bytes))) in requests.iter_mut().zip(writes).enumerate() {
            *request = Request {
                data: n as u64,
                operation: WRITE,
                file,
                bytes: bytes.as_ptr() as u64,
                len: bytes.len() as u64,
                at: *at as i64,
                ..Request::default()
            };
        }
        let mut made = [false; DEPTH];
        let under_way = self.submit(&mut requests[..writes.len().min(DEPTH)]);
        for Event { data, result, .. } in self.wait(under_way) {
            let n = data as usize;
            made[n] = result == writes[n].1.len() as i64;
        }
        made
    }

    /// Passes requests to the kernel; returns how many it took.
    fn submit(&mut self, requests: &mut [Request]) -> usize {
        let pointers = requests.iter_mut().map(|request| &raw mut *request);
        let pointers: Vec<*mut Request> = pointers.collect();
        let mut taken = 0;
        while taken < pointers.len() {
            let rest = &pointers[taken..];
            // SAFETY: pointers to requests, which the kernel accesses in this call alone. It reads
            // their bytes until `wait` has all events, which is before the caller's borrow ends.
            let more =
                unsafe { libc::syscall(libc::SYS_io_submit, self.0, rest.len(), rest.as_ptr()) };
            match more {
                1.. => taken += more as usize,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        taken
    }

    /// Waits for as many requests as are under way. Never returns while one is.
    fn wait(&mut self, under_way: usize) -> Vec<Event> {
        let mut events = vec![Event::default(); under_way];
        let mut done = 0;
        while done < under_way {
            let rest = &mut events[done..];
            // SAFETY: the kernel stores at most as many events as there is space for.
            let more = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.0,
                    rest.len(),
                    rest.len(),
                    rest.as_mut_ptr(),
                    std::ptr::null::<libc::timespec>(),
                )
            };
            match more {
                0.. => done += more as usize,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The context is gone, although nobody else knows it: the bytes may still be read.
                _ => std::process::abort(),
            }
        }
        events
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: a context that was made, and that nobody uses any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}
