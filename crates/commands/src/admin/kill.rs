//! CLIENT KILL: ends the clients that a filter finds.

use engine::call::{Call, Next, Run};
use engine::failure::Done;
use engine::spec::*;

use super::client_filter::{FILTERS, Filter};

pub(super) const CLIENT_KILL: CommandSpec = CommandSpec {
    name: "kill",
    summary: "Kill the connection of a client",
    complexity: "O(N) where N is the number of client connections",
    since: "2.4.0",
    group: Group::Connection,
    arity: -3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    history: &[
        ("2.8.12", "Added new filter format."),
        ("2.8.12", "`ID` option."),
        ("3.2.0", "Added `master` type in for `TYPE` option."),
        (
            "5.0.0",
            "Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility.",
        ),
        ("6.2.0", "`LADDR` option."),
    ],
    args: &[oneof(
        "filter",
        &[string("ip:port").deprecated("2.8.12"), oneof("new-format", FILTERS).multiple()],
    )],
    run: Run::Session(client_kill),
    ..CommandSpec::EMPTY
};

fn client_kill(call: &mut Call<'_>) -> Done {
    if call.args.len() == 3 {
        if kill(call, &Filter::of_addr(call.args[2])) == 0 {
            return Err("ERR No such client".into());
        }
        call.out.ok();
        return Ok(());
    }
    let filter = Filter::read(call, true)?;
    let killed = kill(call, &filter);
    call.out.integer(killed);
    Ok(())
}

/// Kills the clients that the filter finds. A client that kills itself still gets its reply.
fn kill(call: &mut Call<'_>, filter: &Filter) -> i64 {
    let found = filter.find(call.engine);
    for client in &found {
        if client.id == call.session.id() {
            call.next = Next::Close;
        } else {
            client.kill();
        }
    }
    found.len() as i64
}
