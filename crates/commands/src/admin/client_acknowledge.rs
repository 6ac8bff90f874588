//! CLIENT ACKNOWLEDGE: how many replicas must have what the replies to this connection show.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::replication::Quorum;
use engine::spec::*;

/// Maximum of replicas, as for the directive `repl-acknowledge`.
const MOST: u32 = 1000;

pub(super) const CLIENT_ACKNOWLEDGE: CommandSpec = CommandSpec {
    name: "acknowledge",
    summary: "Lets the replies to this connection wait until replicas have what they show.",
    complexity: "O(1)",
    since: "0.1.0",
    group: Group::Connection,
    arity: -3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[oneof(
        "quorum",
        &[
            block("replicas", &[integer("count"), token("durable", "DURABLE").optional()]),
            token("default", "DEFAULT"),
        ],
    )],
    run: Run::Session(client_acknowledge),
    ..CommandSpec::EMPTY
};

fn client_acknowledge(call: &mut Call<'_>) -> Done {
    let durable = call.args.len() == 4 && call.is(3, "durable");
    if call.args.len() > 3 && !durable {
        return Err("ERR syntax error".into());
    }
    let quorum = match call.is(2, "default") {
        true if durable => return Err("ERR syntax error".into()),
        true => None,
        false => {
            let replicas = u32::try_from(call.int(2)?).ok().filter(|count| *count <= MOST);
            let replicas =
                replicas.ok_or("ERR the number of replicas must be between 0 and 1000")?;
            Some(Quorum { replicas, durable })
        }
    };
    call.session.set_quorum(quorum, call.engine.replication().quorum());
    call.out.ok();
    Ok(())
}
