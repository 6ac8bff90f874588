//! The commands of replication: what replicas ask for, what is asked of this server as a primary
//! and as a replica, and the waits for replicas.

mod failover;
mod replconf;
mod replica_of;
mod role;
mod sync;
mod wait;
mod wait_aof;

use engine::failure::Failure;
use engine::spec::CommandSpec;
use engine::{Call, Done};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &sync::SYNC,
    &sync::PSYNC,
    &replconf::REPLCONF,
    &replica_of::REPLICAOF,
    &replica_of::SLAVEOF,
    &role::ROLE,
    &failover::FAILOVER,
    &wait::WAIT,
    &wait_aof::WAITAOF,
];

/// Returns the offset up to which replicas must have the stream so that they have what the client
/// wrote. Its writes may belong to a longer history, which this server had before it followed a
/// primary for a while: then all of the present one counts.
fn written_to(call: &Call<'_>) -> u64 {
    let (written, stream) = (call.session.replicated_to, call.engine.replication().stream());
    // What is shown was appended: without the stream's lock.
    if written <= stream.end() { written } else { written.min(stream.appended()) }
}

/// Refuses a wait for replicas on a server that has a primary.
fn check_is_primary(call: &Call<'_>, command: &str) -> Done {
    if !call.engine.replication().is_replica() {
        return Ok(());
    }
    let when = match command {
        "WAIT" => {
            " since Redis 4.0 if a replica is configured to be writable (which is not the default)"
        }
        _ => "",
    };
    Err(Failure::text(format!(
        "ERR {command} cannot be used with replica instances. Please also note that{when} writes to replicas are just local and are not propagated."
    )))
}
