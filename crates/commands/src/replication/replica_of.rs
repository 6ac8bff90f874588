//! REPLICAOF and SLAVEOF: there is no replication, so NO ONE succeeds without effect.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

const ARGS: &[Arg] = &[oneof(
    "args",
    &[
        block("host-port", &[string("host"), integer("port")]),
        block("no-one", &[token("no", "NO"), token("one", "ONE")]),
    ],
)];

fn replica_of(call: &mut Call<'_>) -> Done {
    if !call.is(1, "no") || !call.is(2, "one") {
        return Err("ERR there is no replication: this server can be nobody's replica".into());
    }
    call.out.ok();
    Ok(())
}

pub(crate) const REPLICAOF: CommandSpec = CommandSpec {
    name: "replicaof",
    summary: "Make the server a replica of another instance, or promote it as master.",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Server,
    arity: 3,
    flags: ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING,
    args: ARGS,
    run: Run::Session(replica_of),
    ..CommandSpec::EMPTY
};

pub(crate) const SLAVEOF: CommandSpec = CommandSpec {
    name: "slaveof",
    summary: "Make the server a replica of another instance, or promote it as master.",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: 3,
    flags: ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING,
    deprecated: Some(Deprecated { since: "5.0.0", instead: "`REPLICAOF`" }),
    args: ARGS,
    run: Run::Session(replica_of),
    ..CommandSpec::EMPTY
};
