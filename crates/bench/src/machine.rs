//! Describes the machine, without which no figure can be interpreted: processor, memory, kernel,
//! file systems and media, versions.
//!
//! The kernel and the programs themselves are queried when a comparison begins. The description
//! never fails: whatever cannot be found out is `unknown`, empty or 0.

use crate::results::{Machine, Place, Version};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::SystemTime;
use std::{fs, io};

/// The medium of a file system without a device.
pub(crate) const DRAM: &str = "DRAM";

/// Returns the state of this machine now, without places and versions.
pub(crate) fn here() -> Machine {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let uname = rustix::system::uname();
    Machine {
        cpu: field(&cpu_info, "model name").unwrap_or_else(unknown),
        cores: available_parallelism().map_or(1, usize::from),
        memory: memory("MemTotal").unwrap_or(0),
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        distribution: distribution(),
        virtual_machine: cpu_info
            .lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        load_before: load(),
        places: Vec::new(),
        versions: Vec::new(),
        commit: commit(),
        command_line: command_line(),
        began: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
    }
}

/// Returns this program's command line, with the program's name instead of its path.
fn command_line() -> Vec<String> {
    let name = env!("CARGO_PKG_NAME").to_owned();
    std::iter::once(name).chain(std::env::args().skip(1)).collect()
}

/// Returns a figure of `/proc/meminfo`, in bytes.
fn memory(name: &str) -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = field(&info, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the load average of the last minute.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn unknown() -> String {
    "unknown".into()
}

/// Returns the value of the first line of the form `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let of = |line: &str| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    };
    text.lines().find_map(of)
}

fn distribution() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(unknown, |name| name.trim_matches('"').to_owned())
}

/// Returns the commit of the sources that this tool was built from, if they still exist.
fn commit() -> Option<String> {
    let describe = ["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"];
    let mut git = Command::new("git");
    git.arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(describe);
    let output = git.stderr(Stdio::null()).output().ok().filter(|output| output.status.success());
    let text = String::from_utf8_lossy(&output?.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Returns the version of a program: the first line that it prints for `--version`.
pub(crate) fn version(name: &str, program: &Path) -> Version {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let text = match said {
        Ok(said) => {
            let text = if said.stdout.is_empty() { said.stderr } else { said.stdout };
            let text = String::from_utf8_lossy(&text);
            text.lines().next().map_or_else(unknown, |line| line.trim().to_owned())
        }
        Err(error) => format!("not found: {error}"),
    };
    Version { program: name.to_owned(), text }
}

/// Returns the free bytes of the file system of a directory.
pub(crate) fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Returns the file system and the medium of a directory.
pub(crate) fn place(id: &str, path: &Path) -> Place {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut mounts: Vec<Mount> = mounts.lines().filter_map(mount).collect();
    // Of two mounts on the same point the later one hides the earlier.
    mounts.retain(|mount| real.starts_with(&mount.point));
    let mount = mounts.iter().max_by_key(|mount| mount.point.as_os_str().len());
    let Some(mount) = mount else {
        return Place { id: id.into(), path: path.display().to_string(), ..Place::default() };
    };
    let dax = mount.options.split(',').any(|option| option == "dax" || option == "dax=always");
    Place {
        id: id.to_owned(),
        path: path.display().to_string(),
        file_system: mount.kind.clone(),
        device: mount.device.clone(),
        medium: medium(&mount.kind, &mount.device, &mount.number),
        dax,
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount {
    number: String,
    point: PathBuf,
    kind: String,
    device: String,
    options: String,
}

fn mount(line: &str) -> Option<Mount> {
    let (place, what) = line.split_once(" - ")?;
    let mut place = place.split(' ');
    let number = place.nth(2)?.to_owned();
    let point = PathBuf::from(place.nth(1)?.replace("\\040", " "));
    let mut what = what.split(' ');
    let (kind, device) = (what.next()?.to_owned(), what.next()?.to_owned());
    Some(Mount { number, point, kind, device, options: what.next().unwrap_or_default().to_owned() })
}

/// Returns the medium of a file system in words.
fn medium(kind: &str, device: &str, number: &str) -> String {
    if matches!(kind, "tmpfs" | "ramfs" | "devtmpfs") {
        return DRAM.into();
    }
    let block = Path::new("/sys/dev/block").join(number);
    // A partition has the queue of its disk, one directory above.
    let ask = |name: &str| {
        let queue = [block.join("queue").join(name), block.join("../queue").join(name)];
        queue.iter().find_map(|path| fs::read_to_string(path).ok())
    };
    let name = device.rsplit('/').next().unwrap_or_default();
    let what = if name.starts_with("pmem") {
        "persistent memory"
    } else if name.starts_with("vd") || name.starts_with("xvd") {
        "virtual disk"
    } else if name.starts_with("nvme") {
        "NVMe SSD"
    } else {
        match ask("rotational").as_deref().map(str::trim) {
            Some("0") => "SSD",
            Some("1") => "hard disk",
            _ => "unknown medium",
        }
    };
    what.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_what_it_is() {
        let machine = here();
        assert!(machine.cores > 0 && machine.memory > 1 << 20, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{}", machine.kernel);
        assert!(
            machine.began.starts_with("20") && machine.began.ends_with('Z'),
            "{}",
            machine.began
        );
    }

    #[test]
    fn a_place_knows_its_medium() {
        let memory = place("memory", Path::new("/dev/shm"));
        assert_eq!((memory.file_system.as_str(), memory.medium.as_str()), ("tmpfs", "DRAM"));
        assert!(!memory.dax);
        assert_eq!(medium("ext4", "/dev/pmem0", "259:0"), "persistent memory");
        assert_eq!(medium("xfs", "/dev/nvme0n1p2", "259:1"), "NVMe SSD");
    }

    #[test]
    fn a_mount_with_dax_is_seen() {
        let line = "36 25 259:0 / /mnt/pm\\040em rw,relatime shared:1 - xfs /dev/pmem0 rw,dax=always,logbufs=8";
        let mount = mount(line).expect("a mount");
        assert_eq!(mount.point, Path::new("/mnt/pm em"));
        assert_eq!((mount.kind.as_str(), mount.number.as_str()), ("xfs", "259:0"));
        assert!(mount.options.split(',').any(|option| option == "dax=always"));
    }

    #[test]
    fn a_program_that_is_missing_is_named_so() {
        let found = version("nothing", Path::new("/nonexistent/program"));
        assert!(found.text.starts_with("not found"), "{}", found.text);
    }
}
