//! The wait for replicas before the server ends: each is to have everything, so that none needs a
//! dump after the restart, and none that is promoted lacks a write.

use std::time::Duration;

use commands::{Failure, Hold};

use crate::host::Server;
use crate::process::shutdown::Request;

/// The error of clients that wait for the end.
const FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";
/// How often the replicas are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Server {
    /// Takes the steps before the end that can fail, or be given up.
    pub(crate) fn prepare_end(&self, request: Request) -> Result<(), Failure> {
        let shutdown = &self.shared.shutdown;
        shutdown.begin_waiting();
        self.wait_for_last_replicas(request);
        if !shutdown.end_waiting() {
            tracing::info!("Shutdown manually aborted.");
            return Err(FAILED.into());
        }
        if self.shared.engine.replication().replicas().count() > 0 {
            self.log_replicas();
        }
        if shutdown.is_asked() {
            // SHUTDOWN NOW has saved already.
            return Ok(());
        }
        self.save_before_end(request)
    }

    /// Goes on to serve: the end was given up, or has failed.
    pub(crate) fn cancel_shutdown(&self) {
        self.shared.engine.release_writes(Hold::Shutdown);
        for client in self.shared.shutdown.cancel() {
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

    /// Pauses writes, and waits until replicas have everything, at most `shutdown-timeout` seconds,
    /// or until that is given up or the end is asked for at once. Writes stay paused.
    fn wait_for_last_replicas(&self, request: Request) {
        let shared = &self.shared;
        let engine = &shared.engine;
        if engine.replication().replicas().count() == 0 {
            return;
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
            let is_over = || shared.shutdown.is_aborted() || shared.shutdown.is_asked();
            while !is_synced() && began.elapsed() < patience && !is_over() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
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
