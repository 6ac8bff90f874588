//! WAIT: how many replicas have this client's writes. There are none, so a client that wants one
//! waits until its timeout.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;
use keyspace::{Key, Txn, Type};
use resp::Writer;

use super::{BlockedOperation, Serving, milliseconds};

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

struct Replicas;

impl BlockedOperation for Replicas {
    fn serve(&self, _: &mut Serving<'_>, _: &mut Txn<'_>, _: &Key<'_>) -> Result<bool, Failure> {
        Ok(false)
    }

    fn time_out(&self, out: &mut Writer) {
        out.integer(0);
    }
}

fn wait(call: &mut Call<'_>) -> Done {
    let replicas = call.int(1)?;
    let until = milliseconds(call, 2)?;
    if replicas <= 0 {
        call.out.integer(0);
    } else {
        call.block(Type::String, &[], Box::new(Replicas), until);
    }
    Ok(())
}
