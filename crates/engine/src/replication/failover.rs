//! FAILOVER: this server, a primary, hands its role over to one of its replicas.
//!
//! Writes are paused, and a replica executes the rest of the stream. When one has acknowledged its
//! end, this server becomes a replica of that one: this is decided while all shards are locked, so
//! that no write comes in between, and one that was admitted before is refused. Then the link asks
//! the replica, by PSYNC with the word FAILOVER, to be the primary, and continues from it. Clients
//! may go on when the replica has agreed or refused. In the latter case this server is a primary
//! again.

use ::replication::{Replica, Stage};

use super::{FailoverPlan, FailoverStage, FailoverStep, Primary};
use crate::engine::Engine;
use crate::observe::state::Hold;

impl Engine {
    /// Begins a failover. Returns false if there is one.
    pub fn begin_failover(&self, plan: FailoverPlan) -> bool {
        let failover = self.replication().failover();
        let mut present = failover.plan();
        if failover.is_on() {
            return false;
        }
        *present = plan;
        failover.set_sure();
        self.admin().hold(Hold::Failover);
        failover.transition(FailoverStage::None, FailoverStage::WaitsForSync);
        drop(present);
        // A replica of Perdura answers at once; others say it each second by themselves.
        self.ask_replicas();
        true
    }

    /// Takes the next step of a failover that waits for a replica. The calling thread may wait for
    /// shards.
    pub fn advance_failover(&self) -> FailoverStep {
        let failover = self.replication().failover();
        if failover.stage() != FailoverStage::WaitsForSync {
            return FailoverStep::Wait;
        }
        let plan = failover.plan().clone();
        let is_late = plan.until_ms.is_some_and(|until| until <= self.clock().unix_ms());
        if is_late && !plan.forces {
            return FailoverStep::GiveUp("Replica never caught up before timeout");
        }
        let find = || if is_late { plan.target.clone() } else { self.synced_replica(&plan) };
        if find().is_none() {
            return FailoverStep::Wait;
        }
        let Ok(locked) = self.lock_all_by_thread() else { return FailoverStep::Wait };
        let Some(primary) = find() else { return FailoverStep::Wait };
        self.config().set_is_replica(true);
        let stream = self.replication().stream();
        stream.set_received(true);
        // A command that changes no data may have come before that.
        let is_synced = is_late || find().as_ref() == Some(&primary);
        if !is_synced
            || !failover.transition(FailoverStage::WaitsForSync, FailoverStage::InProgress)
        {
            stream.set_received(false);
            self.config().set_is_replica(false);
            return FailoverStep::Wait;
        }
        self.replication().set_primary(Some(primary.clone()));
        failover.plan().target = Some(primary.clone());
        drop(locked);
        self.unblock_all();
        if let Some(host) = self.host() {
            let Primary { host: address, port } = &primary;
            host.log(&match is_late {
                true => format!("FAILOVER to {address}:{port} time out exceeded, failing over."),
                false => format!("Failover target {address}:{port} is synced, failing over."),
            });
        }
        FailoverStep::Follow(primary)
    }

    /// Returns the replica that may be the primary: it has acknowledged all of the stream.
    fn synced_replica(&self, plan: &FailoverPlan) -> Option<Primary> {
        // A commit that is not shown yet, or of which nobody knows whether it counts, is in none.
        let end = self.replication().stream().appended();
        let is_target = |replica: &Replica| match &plan.target {
            Some(Primary { host, port }) => replica.host == *host && replica.port == *port,
            None => replica.port != 0,
        };
        let has_all = |replica: &Replica| {
            replica.stage() == Stage::Online
                && replica.has_acknowledged()
                && replica.acknowledged() == end
        };
        let replicas = self.replication().replicas().all();
        let found = replicas.iter().find(|replica| is_target(replica) && has_all(replica))?;
        Some(Primary { host: found.host.clone(), port: found.port })
    }

    /// Ends a failover that is at a stage, and lets clients go on. Returns what it was for; none if
    /// it is not at that stage any more.
    pub fn end_failover(&self, stage: FailoverStage) -> Option<FailoverPlan> {
        let failover = self.replication().failover();
        let mut plan = failover.plan();
        if !failover.transition(stage, FailoverStage::None) {
            return None;
        }
        let plan = std::mem::take(&mut *plan);
        self.release_writes(Hold::Failover);
        Some(plan)
    }

    /// Ends a failover whose replica is asked to be the primary: `take_back` makes this server the
    /// primary again before clients go on. Returns what it was for; none if it is not at that stage
    /// any more: then the role stays as it is.
    pub fn undo_failover<E>(
        &self,
        take_back: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<FailoverPlan>, E> {
        let failover = self.replication().failover();
        if !failover.transition(FailoverStage::InProgress, FailoverStage::Undone) {
            return Ok(None);
        }
        if let Err(error) = take_back() {
            failover.transition(FailoverStage::Undone, FailoverStage::InProgress);
            return Err(error);
        }
        Ok(self.end_failover(FailoverStage::Undone))
    }

    /// Asks the replicas how far they are.
    pub fn ask_replicas(&self) {
        self.replication().ask(self.replication().stream().end());
    }

    /// Waits until writes that had begun before they were paused have ended. Returns false if a
    /// script runs for too long.
    pub fn end_running_writes(&self) -> bool {
        self.lock_all_by_thread().is_ok()
    }

    /// Pauses writes, and what the store deletes by itself.
    pub fn hold_writes(&self, hold: Hold) {
        self.admin().hold(hold);
    }

    /// Lets clients write again.
    pub fn release_writes(&self, hold: Hold) {
        self.admin().release(hold);
        self.clients().list().iter().for_each(|client| client.wake());
    }
}
