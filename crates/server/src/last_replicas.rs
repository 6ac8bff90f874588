//! The wait for replicas before the server ends: each is to have everything, so that none needs a
//! dump after the restart, and none that is promoted lacks a write.

use std::time::Duration;

use commands::{Failure, Hold};

use crate::host::Server;
use crate::shutdown::Request;

/// The error of clients that wait for the end.
const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";
/// How often the replicas are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// The wait was given up (SHUTDOWN ABORT).
#[derive(Debug)]
struct Aborted;

impl Server {
    /// Takes the steps before the end that can fail, or be given up.
    pub(crate) fn prepare_end(&self, request: Request) -> Result<(), Failure> {
        self.shared.shutdown.begin_waiting();
        let waited = self.wait_for_last_replicas(request);
        waited.map_err(|Aborted| Failure::from(FAILED))?;
        self.save_before_end(request)
    }

    /// Goes on to serve: the end was given up, or has failed.
    pub(crate) fn stay(&self) {
        self.shared.engine.release_writes(Hold::Shutdown);
        for client in self.shared.shutdown.stay() {
            self.shared.engine.unblock(client, false);
        }
    }

    /// Returns how many replicas there are, and how many of them have everything.
    fn synced_replicas(&self) -> (usize, usize) {
        let replication = self.shared.engine.replication();
        let (replicas, end) = (replication.replicas().all(), replication.stream().end());
        let synced = replicas.iter().filter(|replica| replica.acknowledged() == end).count();
        (replicas.len(), synced)
    }

    /// Pauses writes, and waits until replicas have everything, at most `shutdown-timeout` seconds.
    /// Writes stay paused.
    fn wait_for_last_replicas(&self, request: Request) -> Result<(), Aborted> {
        let shared = &self.shared;
        let engine = &shared.engine;
        if engine.replication().replicas().count() == 0 {
            return Ok(());
        }
        engine.hold_writes(Hold::Shutdown);
        let seconds = u64::try_from(shared.config.values().shutdown_timeout).unwrap_or(0);
        let is_synced = || {
            let (all, synced) = self.synced_replicas();
            all == synced
        };
        if !request.now && seconds > 0 {
            engine.end_running_writes();
            engine.ask_replicas();
            let began = std::time::Instant::now();
            let patience = Duration::from_secs(seconds);
            let now = engine.clock().unix_ms();
            shared.shutdown.set_until_ms(now.saturating_add(seconds * 1000));
            if !is_synced() {
                tracing::info!("Waiting for replicas before shutting down.");
            }
            while !is_synced() && began.elapsed() < patience && !shared.shutdown.is_aborted() {
                std::thread::sleep(LOOK);
            }
            shared.shutdown.set_until_ms(0);
            if shared.shutdown.is_aborted() {
                tracing::info!("Shutdown manually aborted.");
                return Err(Aborted);
            }
        }
        self.log_replicas();
        Ok(())
    }

    fn log_replicas(&self) {
        let engine = &self.shared.engine;
        let (end, now) = (engine.replication().stream().end(), engine.clock().unix_ms());
        for replica in engine.replication().replicas().all() {
            let behind = end.saturating_sub(replica.acknowledged());
            if behind > 0 {
                tracing::warn!(
                    "Lagging replica {}:{} reported offset {behind} behind master, lag={}, state={}.",
                    replica.host,
                    replica.port,
                    replica.lag_s(now),
                    replica.state()
                );
            }
        }
        let (all, synced) = self.synced_replicas();
        tracing::info!("{synced} of {all} replicas are in sync when shutting down.");
    }
}
