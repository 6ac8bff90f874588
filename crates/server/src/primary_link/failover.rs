//! FAILOVER on the side of the primary: the thread of the link takes its steps, since it is the
//! link that asks the replica to be the primary.

use std::sync::Arc;

use commands::{FailoverPlan, FailoverStage, FailoverStep};
use replication::handshake::{Answer, HandshakeError};

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

/// Notes the answer of the replica that was asked to be the primary; `asked`: by PSYNC with the
/// word FAILOVER.
pub(super) fn note_answer(
    server: &Arc<Server>,
    asked: bool,
    answer: &Result<Answer, HandshakeError>,
) {
    let failover = server.shared.engine.replication().failover();
    if failover.stage() != FailoverStage::InProgress {
        return;
    }
    match answer {
        Ok(_) => drop(server.shared.engine.end_failover(FailoverStage::InProgress)),
        // It may have agreed. If so, it answers a PSYNC as any primary does.
        Err(HandshakeError::Io(_)) => failover.set_unsure(asked || !failover.asks()),
        // It has not.
        Err(HandshakeError::TryAgain(_)) if !asked => failover.set_unsure(false),
        Err(_) => {
            let why = "Failover target rejected psync request";
            give_up(server, why);
        }
    }
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
