//! Facts from the operating system about the machine and this process.
//!
//! They are for people and for INFO.

use std::error::Error;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Returns random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer with random bytes of the operating system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

/// Returns 40 hexadecimal digits.
pub(crate) fn run_id() -> std::io::Result<String> {
    Ok(random::<20>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns name, release and hardware, as in `uname`.
pub(crate) fn os() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

/// Returns the user of this process and the owner of its directory if an error says that permission
/// is denied: a volume of a container, or a directory that root made.
pub(crate) fn why_denied(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    let mut is_denied = false;
    while let Some(error) = cause {
        let failed = error.downcast_ref::<io::Error>();
        is_denied |= failed.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        cause = error.source();
    }
    let folder = std::env::current_dir().ok().filter(|_| is_denied)?;
    let (user, owner) = (rustix::process::geteuid(), folder.metadata().ok()?.uid());
    let folder = folder.display();
    Some(format!(": this process is user {user}, and {folder} belongs to user {owner}"))
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the memory of the machine, in bytes.
pub(crate) fn memory() -> u64 {
    field_kb("/proc/meminfo", "MemTotal")
}

fn field_kb(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) * 1024
}

/// Returns the CPU time of this process in the kernel and outside of it. The sum is exact; the
/// division is known to a hundredth of a second.
pub(crate) fn cpu() -> (Duration, Duration) {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let total = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may contain blanks, utime and stime are the twelfth and thirteenth
    // field.
    let following = text.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<u64> =
        following.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    let hz = rustix::param::clock_ticks_per_second().max(1);
    let sys = ticks.get(1).map_or(Duration::ZERO, |n| Duration::from_millis(n * 1000 / hz));
    let sys = sys.min(total);
    (sys, total - sys)
}

/// Returns how many files this process may have open.
pub(crate) fn open_files() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// Asks for at least this many open files. Returns how many there may be.
pub(crate) fn want_open_files(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= wanted) {
        return open_files();
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    // The superuser may raise the hard limit too; others get what it allows.
    let all = Rlimit { current: Some(wanted), maximum: Some(most.max(wanted)) };
    let some = Rlimit { current: Some(wanted.min(most)), maximum: limit.maximum };
    if setrlimit(Resource::Nofile, all).is_err() {
        let _ = setrlimit(Resource::Nofile, some);
    }
    open_files()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("pool: {0}")]
    struct Failed(#[source] io::Error);

    #[test]
    fn a_denied_step_names_the_user_and_the_owner() {
        let user = rustix::process::geteuid();
        let denied = why_denied(&Failed(io::ErrorKind::PermissionDenied.into())).expect("why");
        assert!(denied.starts_with(&format!(": this process is user {user}, and /")), "{denied}");
        assert_eq!(why_denied(&Failed(io::ErrorKind::NotFound.into())), None);
    }
}
