//! Mappings of persistent memory, cache-line flushes and fences.
//!
//! A [`Region`] is a range of bytes addressed by offset: a DAX file, a DAX device, any other file,
//! or anonymous memory. Its [`Domain`] tells what a flush and a fence have to do there so that
//! stores survive a failure, and which kind of failure. It is detected at run time, never assumed.
//!
//! The rule that everything above relies on: bytes stored by a thread, flushed by the same thread
//! and then fenced by the same thread are durable in the region's domain. Any other store may or
//! may not be, and reaches the medium in units of aligned 8-byte words. `sim` checks the crates
//! above against exactly this rule.
//!
//! This crate knows the CPU and the kernel. It does not know what the bytes mean; nothing above it
//! names an instruction or calls `mmap`.
#![allow(unsafe_code, reason = "mapping memory and flushing cache lines is what this crate is for")]

mod boot;
mod calls;
mod clock;
mod counters;
mod cpu;
mod domain;
#[cfg(feature = "emulate-media")]
mod emulation;
mod error;
mod fault_points;
mod growth;
mod guess;
mod holder;
mod holes;
mod inspect;
mod journal;
mod journaled;
mod lines;
mod locked;
mod mapping;
mod media;
mod new_file;
mod open;
mod options;
mod owned_dir;
mod pages;
mod partition;
mod persist;
mod place;
mod preload;
mod readable;
#[cfg(feature = "sim")]
mod recorder;
mod region;
mod replaced_file;
mod rescue;
mod scheduler;
#[cfg(feature = "sim")]
mod scratch;
mod signal;
mod stream;
mod syncs;
mod volatile_medium;

pub use boot::boot_id;
pub use calls::Call;
#[cfg(any(test, feature = "sim"))]
pub use calls::{Calls, watch_calls};
pub use clock::Clock;
pub use counters::{Counters, counters, share_counters, total_counters};
pub use cpu::prefetch_value;
pub use domain::Domain;
#[cfg(feature = "emulate-media")]
pub use emulation::{Charged, Emulation, Media, Model, charged};
pub use error::{GrowError, MapError, PunchError};
pub use fault_points::{FAULT_POINTS, FaultPoint, fault_point_is_enabled, panic_point};
#[cfg(feature = "sim")]
pub use fault_points::{FaultPointSet, disable_fault_point, panic_after, take_passed_fault_points};
pub use holes::{allocated, trim_allocator};
pub use inspect::RecordLosses;
#[cfg(feature = "sim")]
pub use journal::{ApplySteps, SyncSteps};
pub use journal::{
    ChargedClient, CutShort, DEFAULT_CAPACITY, JournalCounts, JournalError, JournalFile, JournalId,
    JournalReading, JournalRecovery, JournalThread, Kept, MappedLines, SYNC_TIMES, Storage,
};
pub use journaled::SyncPolicy;
pub use lines::{LINE, lines};
pub use locked::when_unlocked;
pub use media::{Lost, LostPage};
pub use new_file::{NewFile, NewFileError};
pub use options::{DomainRequest, MapOptions};
pub use owned_dir::OwnedDir;
pub use partition::Partition;
pub use place::FilePlace;
#[cfg(feature = "sim")]
pub use recorder::{NullRecorder, Recorder};
pub use region::Region;
pub use replaced_file::{ReplacedFile, unnamed_file};
#[cfg(feature = "sim")]
pub use scheduler::{Scheduler, set_scheduler};
pub use scheduler::{is_scheduled, lock, lock_counted, waited_ns};
#[cfg(feature = "sim")]
pub use scratch::Scratch;
pub use signal::ignore_file_size_signal;
pub use stream::STREAM_FROM;
pub use volatile_medium::volatile_medium;
