//! PING, ECHO, QUIT.

use engine::call::{Call, Next, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;

pub(crate) const PING: CommandSpec = CommandSpec {
    name: "ping",
    summary: "Ping the server",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Connection,
    arity: -1,
    flags: FAST,
    traits: FOR_LISTENERS | REPORTS_LOG_FAILURE,
    acl: ACL_CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    args: &[string("message").optional()],
    run: Run::Session(ping),
    ..CommandSpec::EMPTY
};

fn ping(call: &mut Call<'_>) -> Done {
    if call.session.only_listens() && call.args.len() <= 2 {
        call.out.array(2);
        call.out.bulk("pong");
        call.out.bulk(call.args.get(1).copied().unwrap_or_default());
        return Ok(());
    }
    match call.args {
        [_] => call.out.simple("PONG"),
        [_, text] => call.out.bulk(text),
        _ => return Err(Failure::text("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

pub(crate) const ECHO: CommandSpec = CommandSpec {
    name: "echo",
    summary: "Echo the given string",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Connection,
    arity: 2,
    flags: LOADING | STALE | FAST,
    acl: ACL_CONNECTION,
    args: &[string("message")],
    run: Run::Session(echo),
    ..CommandSpec::EMPTY
};

fn echo(call: &mut Call<'_>) -> Done {
    call.out.bulk(call.args[1]);
    Ok(())
}

pub(crate) const QUIT: CommandSpec = CommandSpec {
    name: "quit",
    summary: "Close the connection",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Connection,
    arity: -1,
    flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
    traits: FOR_LISTENERS | IMMEDIATE,
    acl: ACL_CONNECTION,
    run: Run::Session(quit),
    ..CommandSpec::EMPTY
};

fn quit(call: &mut Call<'_>) -> Done {
    call.out.ok();
    call.next = Next::Close;
    Ok(())
}
