//! WAITAOF: whether what this client wrote is durable here, and on how many replicas.
//!
//! If the writes are not durable yet, they are made so at once, on the client's thread: by a sync
//! of the log or of the pool's journal, as with `appendfsync always`, and not by waiting for the
//! next one. A pool without a journal has nothing to do: no reply is sent before its write is
//! durable. A replica says by `REPLCONF ACK offset FACK offset` what it has durably.

use std::sync::Arc;

use ::replication::Replicas;
use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::replication::Wanted;
use engine::spec::*;
use keyspace::{Key, Txn, Type};
use resp::Writer;

use super::{check_is_primary, written_to};
use crate::blocking::{BlockedOperation, Serving, milliseconds};

pub(crate) const WAITAOF: CommandSpec = CommandSpec {
    name: "waitaof",
    summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master and/or replicas.",
    complexity: "O(1)",
    since: "7.2.0",
    group: Group::Generic,
    arity: 4,
    flags: BLOCKING,
    acl: ACL_CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    args: &[integer("numlocal"), integer("numreplicas"), integer("timeout")],
    run: Run::Session(waitaof),
    ..CommandSpec::EMPTY
};

/// The reply: what was durable here, and how many replicas have it durably when the wait ends.
struct Acknowledged {
    here: bool,
    replicas: Arc<Replicas>,
    wanted: Wanted,
}

impl BlockedOperation for Acknowledged {
    fn serve(&self, _: &mut Serving<'_>, _: &mut Txn<'_>, _: &Key<'_>) -> Result<bool, Failure> {
        Ok(false)
    }

    fn time_out(&self, out: &mut Writer) {
        out.array(2);
        out.integer(self.here.into());
        out.integer(self.wanted.reached(&self.replicas) as i64);
    }
}

fn waitaof(call: &mut Call<'_>) -> Done {
    check_is_primary(call, "WAITAOF")?;
    let wanted = call.int(1)?;
    if !(0..=1).contains(&wanted) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    let replicas = call.int(2).ok().filter(|replicas| *replicas >= 0);
    let replicas = replicas.ok_or("ERR value is out of range, must be positive")?;
    let until = milliseconds(call, 3)?;
    let log = call.engine.log();
    let keeps = log.map_or_else(|| call.engine.keyspace().heap().is_durable(), |log| log.is_on());
    if wanted == 1 && !keeps {
        return Err(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into()
        );
    }
    let end = call.session.written_to;
    let here = match log {
        Some(log) if wanted == 1 && call.may_block => log.sync_to(end),
        Some(log) => keeps && log.is_synced(end),
        None => keeps,
    };
    let count = usize::try_from(replicas).unwrap_or(usize::MAX);
    let offset = written_to(call);
    let of_replicas = Wanted { replicas: count, offset, durable: true };
    let replicas = Arc::clone(call.engine.replication().replicas());
    let operation = Acknowledged { here, replicas, wanted: of_replicas };
    let is_here = i64::from(here) >= wanted;
    if is_here && of_replicas.reached(&operation.replicas) >= count {
        operation.time_out(call.out);
        return Ok(());
    }
    call.block(Type::String, &[], Box::new(operation), until);
    // Without the log only its time ends it, however many replicas there are.
    let replicas = if is_here { count } else { usize::MAX };
    call.engine.wait_for_replicas(call.session, Wanted { replicas, ..of_replicas });
    Ok(())
}
