//! Media that lose their content with power, whatever was synced: nothing on them may be called
//! durable.
//!
//! Detects file systems in memory, an overlay that is mounted without syncs or whose upper layer is
//! in memory, block devices in memory, and loop and mapped devices over such media. What a
//! container or a virtual machine hides, and a disk that lies about its cache, cannot be detected:
//! finding nothing proves nothing.

use rustix::fs::{Dev, FileType, major, minor, stat, statfs};
use std::fs;
use std::path::Path;

/// File systems whose files are in memory, by their `statfs` number.
const IN_MEMORY: [(u32, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];

const OVERLAY: u32 = 0x794c_7630;

/// Maximum depth of media below media that is examined.
const DEPTH: u32 = 8;

/// Returns the medium of the file or folder at a path, if it is known to lose its content with
/// power; otherwise `None`.
pub fn volatile_medium(path: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Machine { mounts: &mounts, sysfs: Path::new("/sys") }.medium(path, DEPTH)
}

/// What the system reports about its mounts and devices.
struct Machine<'m> {
    mounts: &'m str,
    sysfs: &'m Path,
}

impl Machine<'_> {
    fn medium(&self, path: &Path, depth: u32) -> Option<String> {
        let found = stat(path).ok()?;
        match FileType::from_raw_mode(found.st_mode) {
            // The device node may be in memory; the persistent memory that it leads to is not.
            FileType::CharacterDevice => return None,
            FileType::BlockDevice => return self.device(found.st_rdev, depth),
            _ => {}
        }
        // The type of the number depends on the architecture.
        let kind = statfs(path).ok()?.f_type as u32;
        if let Some((_, name)) = IN_MEMORY.iter().find(|(number, _)| *number == kind) {
            return Some((*name).to_owned());
        }
        let device = found.st_dev;
        if kind == OVERLAY { self.overlay(device, depth) } else { self.device(device, depth) }
    }

    /// Returns why an overlay is volatile.
    fn overlay(&self, device: Dev, depth: u32) -> Option<String> {
        let upper = match upper_layer(self.mounts, &number(device))? {
            Upper::Unsynced => return Some("an overlay that syncs nothing (volatile)".into()),
            Upper::At(path) => path,
        };
        let below = self.medium(Path::new(&upper), depth.checked_sub(1)?)?;
        Some(format!("an overlay over {below}"))
    }

    /// Returns why a block device is volatile.
    fn device(&self, device: Dev, depth: u32) -> Option<String> {
        self.block_device(&self.sysfs.join("dev/block").join(number(device)), depth)
    }

    fn block_device(&self, entry: &Path, depth: u32) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let entry = fs::canonicalize(entry).ok()?;
        let parts = || entry.iter().filter_map(|part| part.to_str());
        if let Some(name) = parts().find(|part| is_in_memory(part)) {
            return Some(format!("a disk in memory ({name})"));
        }
        if let Ok(file) = fs::read_to_string(entry.join("loop/backing_file")) {
            let below = self.medium(Path::new(file.trim_end()), depth)?;
            return Some(format!("a loop device over {below}"));
        }
        let below = fs::read_dir(entry.join("slaves")).ok()?.flatten();
        below.filter_map(|below| self.block_device(&below.path(), depth)).next()
    }
}

/// Returns true if this is the name of a block device in memory.
fn is_in_memory(name: &str) -> bool {
    ["ram", "zram"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|number| number.parse::<u32>().is_ok()))
}

fn number(device: Dev) -> String {
    format!("{}:{}", major(device), minor(device))
}

/// The writable layer of an overlay.
#[derive(Debug, PartialEq, Eq)]
enum Upper {
    At(String),
    /// It is never synced.
    Unsynced,
}

/// Returns the upper layer of the overlay of a device, from the table of mounts.
fn upper_layer(mounts: &str, device: &str) -> Option<Upper> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    // After the dash: the kind, the source, the options of the file system.
    let options = line.split(" - ").nth(1)?.split(' ').nth(2)?;
    if options.split(',').any(|option| option == "volatile" || option == "fsync=volatile") {
        return Some(Upper::Unsynced);
    }
    let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    Some(Upper::At(upper.replace("\\040", " ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_system_in_memory_is_known() {
        assert_eq!(volatile_medium(Path::new("/dev/shm")).as_deref(), Some("tmpfs"));
        assert_eq!(volatile_medium(Path::new("/no such folder")), None);
        // The node of a device is in memory too.
        assert_eq!(volatile_medium(Path::new("/dev/null")), None);
    }

    #[test]
    fn the_upper_layer_of_an_overlay_is_in_the_table_of_mounts() {
        let mounts = "22 1 0:20 / /sys rw - sysfs sysfs rw\n\
                      30 1 0:40 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\\040d,workdir=/e\n\
                      31 1 0:41 / /v rw - overlay none rw,lowerdir=/a,upperdir=/c,workdir=/e,volatile\n\
                      32 1 0:42 / /r ro - overlay none ro,lowerdir=/a:/b\n";
        let upper = |device| upper_layer(mounts, device);
        assert_eq!(upper("0:40"), Some(Upper::At("/c d".into())));
        assert_eq!(upper("0:41"), Some(Upper::Unsynced));
        assert_eq!(upper("0:42"), None);
        assert_eq!(upper("0:43"), None);
    }

    #[test]
    fn a_block_device_is_volatile_if_it_is_memory_or_over_such() {
        let folder = tempfile::tempdir().unwrap();
        let sysfs = folder.path();
        let device = |name: &str| {
            let path = sysfs.join("devices/virtual/block").join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let machine = Machine { mounts: "", sysfs };
        let check = |path: &Path, expect: Option<&str>| {
            assert_eq!(machine.block_device(path, DEPTH).as_deref(), expect, "{}", path.display());
        };
        let (disk, ram, zram) = (device("sda/sda1"), device("ram3"), device("zram0"));
        check(&disk, None);
        check(&ram, Some("a disk in memory (ram3)"));
        check(&zram, Some("a disk in memory (zram0)"));
        let mapped = device("dm-0/slaves").parent().unwrap().to_owned();
        symlink(&disk, mapped.join("slaves/sda1")).unwrap();
        check(&mapped, None);
        symlink(&zram, mapped.join("slaves/zram0")).unwrap();
        check(&mapped, Some("a disk in memory (zram0)"));
        let over = device("loop0/loop").parent().unwrap().to_owned();
        fs::write(over.join("loop/backing_file"), "/dev/shm\n").unwrap();
        check(&over, Some("a loop device over tmpfs"));
        // A device over itself ends the search.
        let round = device("dm-1/slaves");
        symlink(round.parent().unwrap(), round.join("dm-1")).unwrap();
        check(round.parent().unwrap(), None);
        assert!(!is_in_memory("ramdisk") && !is_in_memory("sda"));
    }
}
