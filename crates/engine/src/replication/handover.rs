//! The state of a failover: what was asked for, and how far it is.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The primary that this server follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// How far a failover is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FailoverStage {
    /// There is none.
    None,
    /// A replica is to catch up.
    WaitsForSync,
    /// The replica is asked to be the primary.
    InProgress,
    /// This server takes its role back.
    Undone,
}

impl FailoverStage {
    /// Returns its name in INFO.
    pub fn name(self) -> &'static str {
        match self {
            FailoverStage::None => "no-failover",
            FailoverStage::WaitsForSync => "waiting-for-sync",
            FailoverStage::InProgress | FailoverStage::Undone => "failover-in-progress",
        }
    }
}

/// What FAILOVER asks for.
#[derive(Clone, Debug, Default)]
pub struct FailoverPlan {
    /// The replica that is to be the primary; any if none.
    pub target: Option<Primary>,
    /// When the replica must have caught up, unix ms; none for never.
    pub until_ms: Option<u64>,
    /// Whether the role is handed over at that time even if the replica has not caught up.
    pub forces: bool,
}

impl FailoverPlan {
    /// Returns the target for the log.
    pub fn target_text(&self) -> String {
        let text = |Primary { host, port }: &Primary| format!("{host}:{port}");
        self.target.as_ref().map_or("any replica".into(), text)
    }
}

/// The failover of this server, if there is one.
#[derive(Default)]
pub struct Failover {
    stage: AtomicU8,
    plan: Mutex<FailoverPlan>,
    /// Whether the replica may have become the primary although its answer never arrived.
    is_unsure: AtomicBool,
}

/// The next step of a failover.
#[derive(Debug)]
pub enum FailoverStep {
    /// Nothing is to be done yet.
    Wait,
    /// It must be given up.
    GiveUp(&'static str),
    /// This server is a replica of that one now: the link is to ask it to be the primary.
    Follow(Primary),
}

impl Failover {
    pub(super) fn plan(&self) -> MutexGuard<'_, FailoverPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how far it is.
    pub fn stage(&self) -> FailoverStage {
        match self.stage.load(SeqCst) {
            0 => FailoverStage::None,
            1 => FailoverStage::WaitsForSync,
            2 => FailoverStage::InProgress,
            _ => FailoverStage::Undone,
        }
    }

    /// Returns true if there is one.
    pub fn is_on(&self) -> bool {
        self.stage() != FailoverStage::None
    }

    /// Returns true if it ends at a certain time.
    pub fn has_deadline(&self) -> bool {
        self.is_on() && self.plan().until_ms.is_some()
    }

    /// Returns true if what the replica does not have may be lost.
    pub fn is_forced(&self) -> bool {
        self.is_on() && self.plan().forces
    }

    /// Returns true if the replica may be the primary already.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure.load(Relaxed)
    }

    /// Notes that the replica may be the primary already: it is asked for its role first.
    pub fn set_unsure(&self) {
        self.is_unsure.store(true, Relaxed);
    }

    pub(super) fn set_sure(&self) {
        self.is_unsure.store(false, Relaxed);
    }

    /// Goes from stage `from` to stage `to`. Returns false if the failover was not at `from`.
    pub(super) fn transition(&self, from: FailoverStage, to: FailoverStage) -> bool {
        self.stage.compare_exchange(from as u8, to as u8, SeqCst, SeqCst).is_ok()
    }
}
