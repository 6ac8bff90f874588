//! A simulated persistence domain, and an explorer of crashes in it. For tests only.
//!
//! A [`Medium`] records what a program does to a simulated region: stores, flushes, fences. For any
//! moment of such a trace, [`Durability`] tells what is certain to be on the medium and what may
//! be: it contains the crash models, in prose and code. [`explore`] runs a store through
//! transactions, takes crash images at each fence and between, opens each, compares its content
//! with what was acknowledged, crashes again inside the recovery, and continues after it to crash
//! once more.
//!
//! The explorer knows no heap: it drives anything that implements [`Workload`], or the simpler
//! [`Subject`]. Explored threads run under a [deterministic scheduler](run_scheduled). A seed
//! determines everything, so that a failure names the seed that reproduces it; time decides only
//! when a search ends. The explorer must not know threads' timing, or the format of a pool.
//!
//! A [`Disk`] is the counterpart for real files: it makes system calls fail, and knows what a power
//! loss leaves. [`SimulatedFiles`] are a simulated pool file and its journal.
#![forbid(unsafe_code)]

mod choices;
mod clock;
mod counts;
mod disk;
mod durability;
mod explore;
mod failure;
mod file_calls;
mod files;
mod medium;
mod pages;
mod scheduler;
mod scratch;
mod shrink;
mod simulated_lines;
mod subject;
mod workload;

pub use clock::SimulatedClock;
pub use counts::Counts;
pub use disk::{Disk, FailingCall};
pub use durability::{Choose, Crash, Durability, Image};
pub use explore::{Effort, explore};
pub use failure::Failure;
pub use file_calls::{Counted, FileCall};
pub use files::{FileEvent, FilesState, Named, SimulatedFiles};
pub use medium::{Event, Medium, Trace};
pub use scheduler::{run_scheduled, undivided, wait, yield_now};
pub use subject::Subject;
pub use workload::{Incarnation, Left, Marker, Promise, Promises, Workload};
