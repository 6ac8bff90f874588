//! The answers to probes: whether the server works, and whether it should get requests.

use std::time::Duration;

use crate::shared::Shared;

/// How long the housekeeping thread may make no round. A round takes a tenth of a second.
const SILENCE: Duration = Duration::from_secs(60);

/// Returns an error if the process should be restarted. A restart cures nothing while data is being
/// loaded, or after a write has failed.
pub(crate) fn is_healthy(shared: &Shared) -> Result<(), String> {
    let silent = shared.supervisor.since_last_round(shared.engine.clock().monotonic());
    let works = shared.engine.config().loading() || shared.shutdown.is_asked();
    match silent > SILENCE && !works {
        true => Err(format!("no housekeeping for {} seconds", silent.as_secs())),
        false => Ok(()),
    }
}

/// Returns an error if the server should get no requests now.
pub(super) fn is_ready(shared: &Shared) -> Result<(), String> {
    let (engine, keyspace) = (&shared.engine, shared.engine.keyspace());
    if shared.shutdown.is_asked() {
        return Err("shutting down".into());
    }
    if engine.config().loading() {
        let facts = shared.loading.facts(engine.clock().unix_ms()).unwrap_or_default();
        let share = facts.loaded as f64 * 100.0 / facts.total.max(1) as f64;
        return Err(format!("loading data: {share:.1} %"));
    }
    if keyspace.heap().is_poisoned() || !engine.durability().takes_writes() {
        return Err("writes are stopped after a failure: the log says which".into());
    }
    if let Some(why) = keyspace.stopped() {
        return Err(why.to_string());
    }
    if let Some(why) = commands::admin::why_no_writes(engine) {
        return Err(format!("writes are refused: {why}"));
    }
    Ok(())
}
