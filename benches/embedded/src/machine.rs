//! What the numbers must be read with: processor, kernel, file systems, versions.

use std::path::Path;
use std::process::Command;

/// Returns one line each.
pub fn lines(disk: &Path, memory: &Path) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    let load = read("/proc/loadavg");
    vec![
        format!(
            "CPU: {}, {cores} cores; Linux {}",
            cpu.map_or("unknown", |(_, name)| name),
            read("/proc/sys/kernel/osrelease").trim()
        ),
        format!("disk: {}; memory: {}", file_system(disk), file_system(memory)),
        format!("commit {}; {}", commit(), versions()),
        format!("load average before: {}", load.split(' ').next().unwrap_or_default()),
    ]
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.lines().last()?.trim().to_owned())
}

fn file_system(path: &Path) -> String {
    let path = path.to_string_lossy();
    let found = first_line("df", &["--output=fstype,source", &path]).unwrap_or_default();
    found.split_whitespace().collect::<Vec<_>>().join(" on ")
}

fn commit() -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    first_line("git", &["-C", root, "rev-parse", "--short", "HEAD"]).unwrap_or_default()
}

/// Returns the versions that were built, from the lock file, and that of the shared library of
/// RocksDB.
fn versions() -> String {
    let mut versions = Vec::new();
    for package in include_str!("../Cargo.lock").split("[[package]]") {
        let field = |name: &str| {
            let start = format!("{name} = \"");
            package.lines().find_map(|line| line.strip_prefix(&start)?.strip_suffix('"'))
        };
        let (Some(name), Some(version)) = (field("name"), field("version")) else { continue };
        if ["fjall", "heed", "redb", "sled"].contains(&name) {
            versions.push(format!("{name} {version}"));
        }
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    versions.extend(shared_rocksdb(&maps).map(|version| format!("RocksDB {version}")));
    versions.join(", ")
}

/// Returns the version of a mapped `librocksdb.so.VERSION`.
fn shared_rocksdb(maps: &str) -> Option<&str> {
    maps.lines().find_map(|line| Some(line.split_once("/librocksdb.so.")?.1.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_what_was_built() {
        let versions = versions();
        assert!(versions.contains("redb 4.") && versions.contains("sled 0.34"), "{versions}");
        let line = "7f-80 r-xp 00 fe:00 1  /usr/lib/x86_64-linux-gnu/librocksdb.so.7.8.3\n";
        assert_eq!(shared_rocksdb(line), Some("7.8.3"));
        assert_eq!(shared_rocksdb("7f-80 r-xp 00 fe:00 1  /usr/lib/libc.so.6\n"), None);
    }
}
