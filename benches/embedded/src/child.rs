//! Tasks that run in processes of their own, and how their results come back.
//!
//! The parent starts its own executable with the task as one JSON argument; the child prints its
//! result as one JSON line.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cell::{Bench, Figure, THREADS, Workload};
use crate::kill;
use crate::store::Result;
use crate::systems::System;

/// The variable that names a folder in memory: for files that are not where the store is.
pub const MEMORY: &str = "PERDURA_EMBEDDED_MEMORY";

/// What a child is asked to do, and with which store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// What to do.
    pub kind: Kind,
    /// [`System::id`].
    pub system: String,
    /// Where the store's files are, or will be.
    pub folder: PathBuf,
    /// How many keys it is filled with.
    pub keys: u64,
    /// Bytes of each value.
    pub len: usize,
}

/// What a child is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Fills the store and measures every workload.
    Measure {
        /// For how long each.
        seconds: f64,
        /// Of the random choices.
        seed: u64,
    },
    /// Fills the store and inserts until it is killed.
    Load {
        /// Where to write how far it came.
        progress: PathBuf,
    },
    /// Opens what the kill left.
    Reopen {
        /// How far the killed one came.
        progress: PathBuf,
    },
}

/// Does what the parent asked for.
pub fn run(task: &str) -> Result<()> {
    let task: Task = serde_json::from_str(task)?;
    let system = System::find(&task.system).ok_or("there is no such system")?;
    let line = match &task.kind {
        Kind::Measure { seconds, seed } => {
            serde_json::to_string(&measure(&task, &system, *seconds, *seed)?)?
        }
        Kind::Load { progress } => {
            return kill::load(&system, &task.folder, task.keys, task.len, progress);
        }
        Kind::Reopen { progress } => {
            let found = kill::reopen(&system, &task.folder, task.keys, task.len, progress)?;
            serde_json::to_string(&found)?
        }
    };
    println!("{line}");
    Ok(())
}

fn measure(task: &Task, system: &System, seconds: f64, seed: u64) -> Result<Vec<Figure>> {
    let store = (system.open)(&task.folder)?;
    let bench = Bench::fill(store.as_ref(), task.keys, task.len, seed)?;
    let time = Duration::from_secs_f64(seconds);
    let mut figures = Vec::new();
    for (workload, threads) in
        Workload::ALL.into_iter().flat_map(|workload| THREADS.map(|n| (workload, n)))
    {
        if bench.can(workload)? {
            figures.push(bench.measure(workload, threads, time)?);
        }
    }
    Ok(figures)
}

/// A child that works; it is killed when this is dropped.
pub struct Working {
    child: Child,
    output: PathBuf,
}

impl Working {
    /// Starts a child; what it prints goes into `scratch`, a folder in memory.
    pub fn start(task: &Task, scratch: &Path) -> Result<Working> {
        let output = scratch.join("output");
        let child = Command::new(std::env::current_exe()?)
            .args(["--child", &serde_json::to_string(task)?])
            .env(MEMORY, scratch)
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .spawn()?;
        Ok(Working { child, output })
    }

    /// Returns whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Ends it, as kill -9 does.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for its result, for `patience` at most or until `stop` says so.
    pub fn result<T: DeserializeOwned>(
        mut self,
        patience: Duration,
        stop: impl Fn() -> bool,
    ) -> Result<T> {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if stop() {
                return Err("stopped".into());
            }
            if start.elapsed() > patience {
                return Err(format!("no result within {patience:?}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if !status.success() {
            return Err(format!("ended with {status}").into());
        }
        Ok(serde_json::from_slice(&std::fs::read(&self.output)?)?)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}
