//! REPLICAOF and SLAVEOF: this server follows a primary, or is one again.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::replication::Primary;
use engine::spec::*;

const ARGS: &[Arg] = &[oneof(
    "args",
    &[
        block("host-port", &[string("host"), integer("port")]),
        block("no-one", &[token("no", "NO"), token("one", "ONE")]),
    ],
)];

fn replica_of(call: &mut Call<'_>) -> Done {
    if call.engine.cluster().is_on() {
        return Err("ERR REPLICAOF not allowed in cluster mode.".into());
    }
    let replication = call.engine.replication();
    if replication.failover().is_on() {
        return Err("ERR REPLICAOF not allowed while failing over.".into());
    }
    let primary = if call.is(1, "no") && call.is(2, "one") {
        None
    } else {
        if call.session.replica.as_ref().is_some_and(|replica| replica.entry.is_some()) {
            return Err("ERR Command is not valid when client is a replica.".into());
        }
        let port = call.int(2).ok().and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or("ERR Invalid master port")?;
        Some(Primary { host: String::from_utf8_lossy(call.args[1]).into_owned(), port })
    };
    if primary == replication.primary() {
        let is_known = primary.is_some();
        call.out.simple(if is_known { "OK Already connected to specified master" } else { "OK" });
        return Ok(());
    }
    let host = call.engine.host().ok_or("ERR there is no server that could be a replica")?;
    host.follow(primary)?;
    call.engine.accept_role(call.session);
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
