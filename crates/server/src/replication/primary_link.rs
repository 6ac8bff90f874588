//! The link of this server, as a replica, to its primary.
//!
//! One thread lives as long as the server. While there is a primary to follow it connects, says
//! what it has, receives a dump if that is not enough, and then executes the stream; when the link
//! ends it begins again. REPLICAOF only sets the [target](crate::replication::primary_target): the
//! thread notices within a tenth of a second. Commands that were received but not yet executed are
//! dropped after REPLICAOF NO ONE: they belong to an earlier epoch of the stream
//! ([`replication::Stream::append_received`]).

mod arrival;
mod failover;
mod receive;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use commands::Primary;

use self::arrival::ArrivalError;
use self::receive::{LinkError, Receiver};
use crate::host::Server;
use crate::replication::position;
use crate::replication::primary_target::Target;
use crate::threads::contained::contained;

/// The pause before the first try after the link has ended; it doubles with each try,
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// ... up to this.
const RETRY: Duration = Duration::from_secs(1);
/// The pause before all data is asked for again,
const FAILED: Duration = Duration::from_secs(5);
/// ... unless that was not necessary for so long.
const SELDOM: Duration = Duration::from_secs(60);
/// How often a pause looks whether the server ends.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The same while a replica is to catch up and then be the primary: no client can write meanwhile.
const FAILOVER: Duration = Duration::from_millis(5);

/// Runs the thread of the link, until the server ends.
pub(crate) fn run(server: &Arc<Server>) {
    let shared = &server.shared;
    while shared.engine.config().loading() && !shared.shutdown.is_asked() {
        std::thread::sleep(POLL_INTERVAL);
    }
    // A command that failed here fails again: only all data can mend that.
    let mut starts_over = false;
    // No file has held a dump.
    let mut drops_first = false;
    let mut pause = FIRST_RETRY / 2;
    let mut failed_at: Option<Instant> = None;
    while !shared.shutdown.is_asked() {
        let Target { primary, number } = server.target.get();
        let Some(primary) = primary else {
            let is_on = shared.engine.replication().failover().is_on();
            server.target.wait(number, if is_on { FAILOVER } else { POLL_INTERVAL });
            contained("a failover", || failover::advance(server));
            position::forget_followed(shared);
            (starts_over, drops_first) = (false, false);
            shared.engine.replication().set_diverged(false);
            pause = FIRST_RETRY / 2;
            continue;
        };
        if server.target.is_held_up() {
            std::thread::sleep(POLL_INTERVAL);
            continue;
        }
        let Primary { host, port } = &primary;
        let mut receiver = Receiver::new(server, number);
        let ended = contained("the link to the primary", || {
            receiver.follow(&primary, !starts_over, drops_first)
        });
        // A primary that has just restarted is there again soon.
        pause = if receiver.has_lasted() { FIRST_RETRY } else { (pause * 2).min(RETRY) };
        starts_over &= !receiver.has_followed();
        drops_first &= !receiver.has_followed();
        shared.engine.replication().set_diverged(starts_over);
        receiver.end();
        if !server.target.is(number) {
            continue;
        }
        match ended {
            Some(Ok(()) | Err(LinkError::Stopped)) => continue,
            Some(Err(error)) => {
                let again = if error.needs_all() { "; all data is asked for again" } else { "" };
                tracing::warn!("The link to primary {host}:{port} ended: {error}{again}");
                // The next try takes another dump.
                let took_dump = matches!(
                    error,
                    LinkError::Arrival(ArrivalError::Damaged(_)) | LinkError::Log(_)
                );
                starts_over |= error.needs_all();
                if error.needs_all() || took_dump {
                    let is_first = failed_at.is_none_or(|at| at.elapsed() > SELDOM);
                    failed_at = Some(Instant::now());
                    pause = if is_first { RETRY } else { FAILED };
                } else if let LinkError::Arrival(_) = error {
                    drops_first = true;
                } else if let LinkError::Apply(_) | LinkError::Sync(_) = error {
                    pause = RETRY;
                }
            }
            None => (starts_over, pause) = (true, FAILED),
        }
        shared.engine.replication().set_diverged(starts_over);
        if starts_over {
            position::forget(shared);
        }
        let mut rest = pause;
        while !rest.is_zero() && server.target.is(number) && !shared.shutdown.is_asked() {
            server.target.wait(number, POLL_INTERVAL.min(rest));
            rest = rest.saturating_sub(POLL_INTERVAL);
        }
    }
}
