//! What is compared: each store with every write durable and without, on a disk and in memory.
//!
//! Stores are compared that promise the same on the same medium: that is a
//! [`Class`]. Perdura's first variant in a class is what the others' ratios refer to.

use std::path::Path;

use crate::engines;
use crate::store::{Result, Store};

/// Where the files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the file system that `--disk` names.
    Disk,
    /// In `/dev/shm`: DRAM, where syncing costs a system call and nothing more.
    Memory,
}

/// What an acknowledged write survives, where its files are on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// A power loss.
    Power,
    /// A power loss, if the disk has no volatile cache.
    PowerWithoutDiskCache,
    /// A power loss on persistent memory; here, where it is emulated, the end of the process.
    PowerOnPersistentMemory,
    /// The end of the process.
    Kill,
    /// Nothing, for some time or forever.
    Nothing,
}

impl Survives {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Survives::Power => "power loss",
            Survives::PowerWithoutDiskCache => "power loss, if the disk has no volatile cache",
            Survives::PowerOnPersistentMemory => "power loss on persistent memory; here kill -9",
            Survives::Kill => "kill -9",
            Survives::Nothing => "nothing",
        }
    }
}

/// A way to open a store.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    is_durable: bool,
    places: &'static [Place],
    setting: &'static str,
    survives: Survives,
    open: fn(&Path) -> Result<Box<dyn Store>>,
}

const BOTH: &[Place] = &[Place::Disk, Place::Memory];

const fn durable(
    name: &'static str,
    setting: &'static str,
    survives: Survives,
    open: fn(&Path) -> Result<Box<dyn Store>>,
) -> Variant {
    Variant { name, is_durable: true, places: BOTH, setting, survives, open }
}

const fn relaxed(
    name: &'static str,
    setting: &'static str,
    survives: Survives,
    open: fn(&Path) -> Result<Box<dyn Store>>,
) -> Variant {
    Variant { name, is_durable: false, places: BOTH, setting, survives, open }
}

const DISK: &[Place] = &[Place::Disk];
const MEMORY: &[Place] = &[Place::Memory];

const VARIANTS: &[Variant] = &[
    Variant {
        places: MEMORY,
        ..durable(
            "perdura clwb",
            "domain `clwb`, emulated: flushes and a fence per commit",
            Survives::PowerOnPersistentMemory,
            engines::perdura::emulated,
        )
    },
    durable(
        "perdura journal",
        "`Durability::Immediate`: `fdatasync` of the journal per write, shared by threads",
        Survives::Power,
        engines::perdura::journal,
    ),
    Variant {
        places: DISK,
        ..durable(
            "perdura tail",
            "a journal in emulated persistent memory, the pool on the disk",
            Survives::PowerOnPersistentMemory,
            engines::perdura::journal_in_memory,
        )
    },
    durable(
        "perdura msync",
        "domain `msync`: `msync` or `fdatasync` per commit",
        Survives::Power,
        engines::perdura::msync,
    ),
    relaxed(
        "perdura process",
        "domain `process`: nothing is flushed",
        Survives::Kill,
        engines::perdura::process,
    ),
    relaxed(
        "perdura journal",
        "`Durability::Interval`, 1 s: in the journal's file, synced each second",
        Survives::Kill,
        engines::perdura::interval,
    ),
    Variant {
        places: MEMORY,
        ..relaxed(
            "perdura volatile",
            "no pool: anonymous memory",
            Survives::Nothing,
            engines::perdura::volatile,
        )
    },
    durable("redb", "`Durability::Immediate`", Survives::Power, engines::redb::durable),
    relaxed("redb", "`Durability::None`", Survives::Nothing, engines::redb::relaxed),
    durable("fjall", "`PersistMode::SyncData` per write", Survives::Power, engines::fjall::durable),
    relaxed("fjall", "`PersistMode::Buffer`", Survives::Kill, engines::fjall::relaxed),
    durable(
        "sled",
        "`flush` per write (`sync_file_range`)",
        Survives::PowerWithoutDiskCache,
        engines::sled::durable,
    ),
    relaxed("sled", "flushed every 500 ms", Survives::Nothing, engines::sled::relaxed),
    durable(
        "LMDB (heed)",
        "default: `fdatasync` per commit",
        Survives::Power,
        engines::heed::durable,
    ),
    relaxed("LMDB (heed)", "`NO_SYNC`", Survives::Kill, engines::heed::relaxed),
    #[cfg(feature = "rocksdb")]
    durable("RocksDB", "`WriteOptions::sync`", Survives::Power, engines::rocksdb::durable),
    #[cfg(feature = "rocksdb")]
    relaxed("RocksDB", "default: the log is not synced", Survives::Kill, engines::rocksdb::relaxed),
];

/// What may be compared with each other: the same promise on the same medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Whether each write is durable when its call returns.
    pub is_durable: bool,
    /// Where the files lie.
    pub place: Place,
}

impl Class {
    /// Returns all of them, in the order of the report.
    pub fn all() -> [Class; 4] {
        let class = |is_durable, place| Class { is_durable, place };
        [
            class(true, Place::Disk),
            class(true, Place::Memory),
            class(false, Place::Disk),
            class(false, Place::Memory),
        ]
    }

    /// As a heading.
    pub fn title(self) -> &'static str {
        match (self.is_durable, self.place) {
            (true, Place::Disk) => "Every write durable, on the disk",
            (true, Place::Memory) => "Every write durable, in /dev/shm",
            (false, Place::Disk) => "Writes not synced, on the disk",
            (false, Place::Memory) => "Writes not synced, in /dev/shm",
        }
    }
}

/// A store, opened in one way, at one place.
#[derive(Clone, Copy)]
pub struct System {
    /// The store, for Perdura with its domain.
    pub name: &'static str,
    /// With what it is compared.
    pub class: Class,
    /// How durability is chosen.
    pub setting: &'static str,
    /// What an acknowledged write survives.
    pub survives: Survives,
    /// Opens it in a folder, or makes it there.
    pub open: fn(&Path) -> Result<Box<dyn Store>>,
}

impl System {
    /// Returns every combination.
    pub fn all() -> Vec<System> {
        let at = |class: Class| {
            let fits = move |v: &&Variant| {
                v.is_durable == class.is_durable && v.places.contains(&class.place)
            };
            VARIANTS.iter().filter(fits).map(move |v| System {
                name: v.name,
                class,
                setting: v.setting,
                survives: v.survives,
                open: v.open,
            })
        };
        Class::all().into_iter().flat_map(at).collect()
    }

    /// Returns a name that no other has: `redb durable disk`.
    pub fn id(&self) -> String {
        let durable = if self.class.is_durable { "durable" } else { "unsynced" };
        let place = if self.class.place == Place::Disk { "disk" } else { "shm" };
        format!("{} {durable} {place}", self.name)
    }

    /// Returns the one with this [`System::id`].
    pub fn find(id: &str) -> Option<System> {
        System::all().into_iter().find(|system| system.id() == id)
    }

    /// Returns true if it is the library that the others are compared with.
    pub fn is_ours(&self) -> bool {
        self.name.starts_with("perdura")
    }

    /// Returns true if there is anything to find after a kill.
    pub fn has_files(&self) -> bool {
        self.name != "perdura volatile"
    }
}
