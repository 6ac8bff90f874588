//! Which process has locked a file, according to the system.
//!
//! A user who waits for a lock, or is refused, wants to know who holds it. `/proc/locks` lists the
//! process of each lock in the same namespace; files of a file system whose device there differs
//! from that of `stat` are not found.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Returns the process that has a lock on a file, if the system reports it.
pub(crate) fn holder(file: &Metadata) -> Option<u32> {
    let device = file.dev();
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    let wanted = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1234 08:01:567 0 EOF
    let mut locks = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let lock = locks.find(|lock| {
        lock.get(1) == Some(&"FLOCK") && lock.get(5).is_some_and(|file| **file == *wanted)
    })?;
    lock.get(4)?.parse().ok()
}

/// Returns true if a process has memory: a killed process has none while the kernel tears it down,
/// although it still holds its locks.
pub(crate) fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| status.contains("\nVmSize:"))
}
