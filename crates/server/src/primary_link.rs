//! The link of this server, as a replica, to its primary.
//!
//! One thread lives as long as the server. While there is a primary to follow it connects, says what
//! it has, receives a dump if that is not enough, and then executes the stream; when the link ends
//! it begins again. REPLICAOF only sets the target: the thread notices within a tenth of a second,
//! and what it has in hand meanwhile belongs to a history that is no longer the present one
//! ([`replication::Stream::append_received`]).

mod receive;
mod wire;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use commands::Primary;
use replication::Id;

use self::receive::{LinkError, Receiver};
use crate::host::Server;
use crate::machine;

/// The pause before the first try after the link has ended; it doubles with each try,
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// ... up to this.
const RETRY: Duration = Duration::from_secs(1);
/// How often a pause looks whether the server ends.
const LOOK: Duration = Duration::from_millis(100);

/// The server that this one is to follow.
#[derive(Default)]
pub(crate) struct PrimaryLink {
    target: Mutex<Target>,
    changed: Condvar,
}

#[derive(Clone, Default)]
struct Target {
    primary: Option<Primary>,
    /// Counts the changes.
    number: u64,
}

impl PrimaryLink {
    fn target(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this is still the target.
    fn is_target(&self, number: u64) -> bool {
        self.target().number == number
    }

    /// Waits until the target is another one, but not for long.
    fn wait(&self, number: u64, time: Duration) {
        let same = |target: &mut Target| target.number == number;
        drop(self.changed.wait_timeout_while(self.target(), time, same));
    }
}

impl Server {
    /// Follows a primary, or nobody: then this server continues the history as a primary itself.
    pub(crate) fn follow_primary(&self, primary: Option<Primary>) -> std::io::Result<()> {
        let next = Id::from_random(machine::random()?);
        let mut target = self.link.target();
        if target.primary == primary {
            return Ok(());
        }
        let replication = self.shared.engine.replication();
        match &primary {
            Some(Primary { host, port }) => tracing::info!("REPLICAOF {host}:{port} enabled"),
            None => tracing::info!("MASTER MODE enabled"),
        }
        let is_promoted = primary.is_none() && replication.stream().is_on();
        if is_promoted {
            // From here on what is still in hand is of an older history.
            replication.stream().rename(next);
            replication.stream().forget_database();
        }
        *target = Target { primary: primary.clone(), number: target.number + 1 };
        self.shared.config.set_primary(primary.as_ref());
        self.shared.engine.follow(primary);
        drop(target);
        self.link.changed.notify_all();
        Ok(())
    }
}

/// Follows the primary that the configuration names, before any client is served.
pub(crate) fn follow_at_start(server: &Server) -> std::io::Result<()> {
    let text = server.shared.config.values().replicaof.to_text();
    match text.split_once(' ') {
        Some((host, port)) => server.follow_primary(Some(Primary {
            host: host.to_owned(),
            port: port.parse().unwrap_or(0),
        })),
        None => Ok(()),
    }
}

/// Runs the thread of the link, until the server ends.
pub(crate) fn run(server: &Arc<Server>) {
    let shared = &server.shared;
    while shared.engine.config().loading() && !shared.shutdown.is_asked() {
        std::thread::sleep(LOOK);
    }
    // A command that failed here fails again: only all data can mend that.
    let mut starts_over = false;
    let mut pause = Duration::ZERO;
    while !shared.shutdown.is_asked() {
        let Target { primary, number } = server.link.target().clone();
        let Some(primary) = primary else {
            server.link.wait(number, LOOK);
            starts_over = false;
            continue;
        };
        let Primary { host, port } = &primary;
        let mut receiver = Receiver::new(server, number);
        let ended = receiver.follow(&primary, !starts_over);
        // A primary that has just restarted is there again soon.
        pause = if receiver.has_followed() { FIRST_RETRY } else { (pause * 2).min(RETRY) };
        receiver.end();
        match ended {
            Ok(()) | Err(LinkError::Stopped) => continue,
            Err(LinkError::Apply(error @ commands::ApplyError::Failed { .. })) => {
                tracing::error!(
                    "The link to primary {host}:{port} ended: {error}. All data is asked for again"
                );
                starts_over = true;
            }
            Err(error) => {
                tracing::warn!("The link to primary {host}:{port} ended: {error}");
                starts_over = matches!(error, LinkError::Sync(_));
            }
        }
        let mut rest = pause.max(FIRST_RETRY);
        while !rest.is_zero() && server.link.is_target(number) && !shared.shutdown.is_asked() {
            server.link.wait(number, LOOK.min(rest));
            rest = rest.saturating_sub(LOOK);
        }
    }
}
