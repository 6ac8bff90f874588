//! MONITOR: shows every command, as it is executed, to the clients that asked for it.

use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Next, Run};
use engine::failure::Done;
use engine::spec::*;

pub(crate) const MONITOR: CommandSpec = CommandSpec {
    name: "monitor",
    summary: "Listen for all requests received by the server in real time",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    run: Run::Session(monitor),
    ..CommandSpec::EMPTY
};

fn monitor(call: &mut Call<'_>) -> Done {
    // Redis's error calls every client so that may not be blocked, also those inside of a
    // transaction.
    if !call.may_block {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    // A client that monitors already gets no reply.
    if call.session.client.monitor.load(Relaxed) {
        return Ok(());
    }
    call.engine.set_monitor(&call.session.client, true);
    call.engine.permissions().close_if_denied(call);
    call.next = Next::Monitor;
    call.out.ok();
    Ok(())
}
