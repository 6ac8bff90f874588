//! The persistence modes under which servers are killed, and the resource that may run out
//! meanwhile.
//!
//! The end of a process takes nothing that the kernel was given: stores into a shared mapping stay,
//! and so do bytes that write(2) accepted. So every backend and every sync policy must keep
//! everything that was acknowledged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::load::Habits;
use testkit::{Launch, Medium};

/// How much a log may grow before its disk is full, in KiB.
const POOL_SIZE: std::ops::Range<u64> = 16..320;

/// The resource that runs out while clients write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    Nothing,
    /// The pool reaches its maximum size.
    Pool,
    /// A limit on the length of files, which a log reaches after some more commands.
    File,
    /// A small file system of its own. Needs root.
    Disk,
}

/// A persistence mode.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    launch: fn() -> Launch,
    pub(crate) short: Short,
    /// Every fourth round is long enough for a sync in the background.
    pub(crate) waits_for_sync: bool,
}

const fn plain(name: &'static str, launch: fn() -> Launch) -> Scenario {
    Scenario { name, launch, short: Short::Nothing, waits_for_sync: false }
}

fn full_pool() -> Launch {
    let launch = Launch::perdura().on(Medium::Memory);
    launch.args(["--backend", "pmem", "--domain", "process", "--pool-size", "80mb"])
}

fn rewriting() -> Launch {
    let eager = ["--auto-aof-rewrite-percentage", "1", "--auto-aof-rewrite-min-size", "1kb"];
    Launch::perdura_aof("always").args(eager)
}

fn rewriting_commands() -> Launch {
    rewriting().args(["--aof-use-rdb-preamble", "no"])
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    plain("pmem process", Launch::perdura_pmem),
    plain("pmem clwb emulated", Launch::perdura_emulated),
    plain("pmem msync", Launch::perdura_msync),
    plain("journal always", || Launch::perdura_journal("always")),
    Scenario {
        waits_for_sync: true,
        ..plain("journal everysec", || Launch::perdura_journal("everysec"))
    },
    plain("journal no", || Launch::perdura_journal("no")),
    plain("aof always", || Launch::perdura_aof("always")),
    Scenario { waits_for_sync: true, ..plain("aof everysec", || Launch::perdura_aof("everysec")) },
    plain("aof no", || Launch::perdura_aof("no")),
    plain("aof always rewriting", rewriting),
    plain("aof always rewriting commands", rewriting_commands),
    Scenario { short: Short::Pool, ..plain("pmem process full-pool", full_pool) },
    Scenario { short: Short::Disk, ..plain("pmem clwb full-disk", Launch::perdura_emulated) },
    Scenario {
        short: Short::Disk,
        ..plain("journal everysec full-disk", || Launch::perdura_journal("everysec"))
    },
    Scenario {
        short: Short::File,
        ..plain("aof always full-disk", || Launch::perdura_aof("always"))
    },
    Scenario {
        short: Short::File,
        ..plain("aof everysec full-disk", || Launch::perdura_aof("everysec"))
    },
    Scenario { short: Short::File, ..plain("aof no full-disk", || Launch::perdura_aof("no")) },
];

impl Scenario {
    /// How to start the server over a folder the next time.
    pub(crate) fn launch(&self, folder: &Path, random: &mut fastrand::Rng) -> Launch {
        match self.short {
            Short::File => (self.launch)().longest_file(longest(folder) + random.u64(POOL_SIZE)),
            _ => (self.launch)(),
        }
    }

    /// Returns true if clients fill the pool or its disk.
    pub(crate) fn is_filled(&self) -> bool {
        matches!(self.short, Short::Pool | Short::Disk)
    }

    pub(crate) fn habits(&self) -> Habits {
        if self.is_filled() { Habits::FILLING } else { Habits::USUAL }
    }
}

/// The length of the longest file of a log, in KiB.
fn longest(folder: &Path) -> u64 {
    let files = fs::read_dir(folder.join("appendonlydir")).into_iter().flatten().flatten();
    let lengths = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    lengths.max().unwrap_or(0).div_ceil(1024)
}

/// A small file system in memory, unmounted when dropped.
pub(crate) struct SmallDisk {
    folder: PathBuf,
    _above: tempfile::TempDir,
}

impl SmallDisk {
    /// `None` if this process may not mount.
    pub(crate) fn mount(mib: u32) -> Option<SmallDisk> {
        let above = Medium::Memory.scratch();
        let folder = above.path().join("small");
        fs::create_dir(&folder).ok()?;
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(&folder);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk { folder, _above: above })
    }

    pub(crate) fn scratch(&self) -> tempfile::TempDir {
        tempfile::TempDir::new_in(&self.folder).expect("a folder on the small disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).output();
    }
}
