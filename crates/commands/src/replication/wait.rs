//! WAIT: whether replicas have what this client wrote.

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

pub(crate) const WAIT: CommandSpec = CommandSpec {
    name: "wait",
    summary: "Wait for the synchronous replication of all the write commands sent in the context of the current connection",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Generic,
    arity: 3,
    flags: NOSCRIPT,
    acl: ACL_CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    args: &[integer("numreplicas"), integer("timeout")],
    run: Run::Session(wait),
    ..CommandSpec::EMPTY
};

/// The reply: how many replicas have it, whenever the wait ends.
struct Acknowledged {
    replicas: Arc<Replicas>,
    wanted: Wanted,
}

impl BlockedOperation for Acknowledged {
    fn serve(&self, _: &mut Serving<'_>, _: &mut Txn<'_>, _: &Key<'_>) -> Result<bool, Failure> {
        Ok(false)
    }

    fn time_out(&self, out: &mut Writer) {
        out.integer(self.wanted.reached(&self.replicas) as i64);
    }
}

fn wait(call: &mut Call<'_>) -> Done {
    check_is_primary(call, "WAIT")?;
    let replicas = call.int(1)?;
    let until = milliseconds(call, 2)?;
    let count = usize::try_from(replicas).unwrap_or(0);
    let offset = written_to(call);
    let wanted = Wanted { replicas: count, offset, durable: false };
    let replicas = Arc::clone(call.engine.replication().replicas());
    let operation = Acknowledged { replicas, wanted };
    if wanted.reached(&operation.replicas) >= count {
        operation.time_out(call.out);
        return Ok(());
    }
    call.block(Type::String, &[], Box::new(operation), until);
    call.engine.wait_for_replicas(call.session, wanted);
    Ok(())
}
