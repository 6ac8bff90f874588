//! MULTI and DISCARD: start a queue, and drop it.

use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::execute::queue::discard as forget;
use engine::failure::Done;
use engine::session::Queue;
use engine::spec::*;

pub(crate) const MULTI: CommandSpec = CommandSpec {
    name: "multi",
    summary: "Mark the start of a transaction block",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
    traits: IMMEDIATE | LOG_FRAME,
    acl: ACL_TRANSACTION,
    run: Run::Session(multi),
    ..CommandSpec::EMPTY
};

fn multi(call: &mut Call<'_>) -> Done {
    if call.session.in_multi() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.multi = Some(Box::<Queue>::default());
    call.session.client.queued.store(0, Relaxed);
    call.out.ok();
    Ok(())
}

pub(crate) const DISCARD: CommandSpec = CommandSpec {
    name: "discard",
    summary: "Discard all commands issued after MULTI",
    complexity: "O(N), when N is the number of queued commands",
    since: "2.0.0",
    group: Group::Transactions,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
    traits: IMMEDIATE,
    acl: ACL_TRANSACTION,
    run: Run::Session(discard),
    ..CommandSpec::EMPTY
};

fn discard(call: &mut Call<'_>) -> Done {
    if !call.session.in_multi() {
        return Err("ERR DISCARD without MULTI".into());
    }
    forget(call.engine, call.session);
    call.out.ok();
    Ok(())
}
