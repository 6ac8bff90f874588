//! FAILOVER on the side of the primary: the thread of the link takes its steps, since it is the
//! link that asks the replica to be the primary.

use std::io::BufReader;
use std::sync::Arc;

use commands::{FailoverPlan, FailoverStage, FailoverStep};
use replication::handshake::{self, Answer, Handshake, HandshakeError};

use super::receive::LinkError;
use super::wire::PrimaryWire;
use crate::host::Server;

/// Takes the next step of a failover that waits for a replica.
pub(super) fn advance(server: &Arc<Server>) {
    let engine = &server.shared.engine;
    match engine.advance_failover() {
        FailoverStep::Wait => {}
        FailoverStep::GiveUp(why) => {
            note_end(engine.end_failover(FailoverStage::WaitsForSync), why);
        }
        FailoverStep::Follow(primary) => {
            follow(server, Some(primary));
            // FAILOVER ABORT came before there was anything to undo.
            if engine.replication().failover().stage() != FailoverStage::InProgress {
                follow(server, None);
            }
        }
    }
}

/// Does the handshake with the primary. In a failover that one is asked to be the primary first,
/// and what it answers is noted.
pub(super) fn handshake(
    server: &Arc<Server>,
    wire: &PrimaryWire,
    input: &mut BufReader<PrimaryWire>,
    asks: Handshake,
) -> Result<Answer, LinkError> {
    match server.shared.engine.replication().failover().stage() {
        FailoverStage::InProgress => ask_target(server, wire, input, asks),
        // The target changes at once.
        FailoverStage::Undone => Err(LinkError::Stopped),
        FailoverStage::None | FailoverStage::WaitsForSync => {
            Ok(handshake::handshake(input, &mut wire.clone(), &asks)?)
        }
    }
}

/// Asks the target of a failover to be the primary.
///
/// If a connection breaks, the target may have agreed or not: the next one asks for its role first.
/// A primary that has our history, under the ID before its own or the one before that, is the
/// target. So may be any other one: it was promoted, and has restarted. This server takes its role
/// back only from one without data, and else waits, as for a target that does not answer. It drops
/// its data for a dump only if the target has all of it, or if FORCE has allowed that it has not; a
/// replica that has not is not asked.
fn ask_target(
    server: &Arc<Server>,
    wire: &PrimaryWire,
    input: &mut BufReader<PrimaryWire>,
    mut asks: Handshake,
) -> Result<Answer, LinkError> {
    let engine = &server.shared.engine;
    let failover = engine.replication().failover();
    let mut output = wire.clone();
    let Some((id, end)) = asks.resume else {
        give_up(server, "There is no history that the target could continue");
        return Err(LinkError::Stopped);
    };
    let mut may_load = failover.is_forced();
    let is_unsure = failover.is_unsure();
    asks.failover = true;
    let mut answer = handshake::introduce(input, &mut output, &asks);
    if is_unsure {
        answer?;
        let role = handshake::ask_role(input, &mut output)?;
        if role.is_primary {
            let Some(until) = role.until(id) else {
                if !role.is_at_start() || handshake::ask_keys(input, &mut output)? {
                    return Err(LinkError::OtherHistory);
                }
                give_up(server, "Failover target is a primary without data");
                return Err(LinkError::Stopped);
            };
            may_load |= until >= end;
            if !may_load {
                return Err(LinkError::WouldLose);
            }
            asks.failover = false;
        } else if !may_load && role.end < end {
            return Err(refuse_target(server));
        }
        answer = Ok(());
    } else if !may_load && answer.is_ok() {
        // It had all of the stream, but it may have crashed since then.
        answer = match handshake::ask_role(input, &mut output) {
            Ok(role) if !role.is_primary && role.end < end => return Err(refuse_target(server)),
            // A user for replicas may be allowed nothing else.
            Ok(_) | Err(HandshakeError::Refused(_) | HandshakeError::NotAnAnswer { .. }) => Ok(()),
            Err(error) => return Err(error.into()),
        };
    }
    match answer.and_then(|()| handshake::psync(input, &mut output, &asks)) {
        Ok(Answer::Full { .. }) if !may_load => {
            failover.set_unsure();
            Err(LinkError::WouldLose)
        }
        // None: FAILOVER ABORT came before.
        Ok(answer) => match engine.end_failover(FailoverStage::InProgress) {
            Some(_) => Ok(answer),
            None => Err(LinkError::Stopped),
        },
        Err(HandshakeError::Io(error)) => {
            failover.set_unsure();
            Err(error.into())
        }
        Err(error) => {
            // A request of an earlier connection may have been granted just now.
            let mut is_replica =
                || handshake::ask_role(input, &mut output).is_ok_and(|role| !role.is_primary);
            if asks.failover && (!is_unsure || is_replica()) {
                give_up(server, "Failover target rejected psync request");
            }
            Err(error.into())
        }
    }
}

/// Gives up a failover to a replica that has not all data. As the primary it would be one that this
/// server must not follow.
fn refuse_target(server: &Arc<Server>) -> LinkError {
    give_up(server, "Failover target has lost a part of the stream");
    LinkError::Stopped
}

/// Ends a failover whose target does not become the primary; this server is a primary again.
fn give_up(server: &Arc<Server>, why: &str) {
    match server.shared.engine.undo_failover(|| server.target.follow(&server.shared, None)) {
        Ok(ended) => note_end(ended, why),
        Err(error) => log_failure(&error),
    }
}

fn note_end(ended: Option<FailoverPlan>, why: &str) {
    if let Some(plan) = ended {
        tracing::info!("FAILOVER to {} aborted: {why}", plan.target_text());
    }
}

fn follow(server: &Arc<Server>, primary: Option<commands::Primary>) {
    if let Err(error) = server.target.follow(&server.shared, primary) {
        log_failure(&error);
    }
}

fn log_failure(error: &std::io::Error) {
    tracing::error!("The role cannot be changed: {error}");
}
