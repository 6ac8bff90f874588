//! The process and its machine: what the operating system gives and is told.
//!
//! - `log`, `text`: lines of the log, and texts that several modules need.
//! - `machine`, `disks`, `oom_score`: facts and settings of the machine.
//! - `allocator`: gives memory back to the kernel.
//! - `data_dir`, `pid_file`: the files that belong to the process.
//! - `shutdown`, `supervisor`: its end, and its reports to systemd.

pub(crate) mod allocator;
pub(crate) mod data_dir;
pub(crate) mod disks;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod oom_score;
pub(crate) mod pid_file;
pub(crate) mod shutdown;
pub(crate) mod supervisor;
pub(crate) mod text;
