//! SELECT and RESET: choosing the database, and returning to the state of a new connection.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::execute::queue;
use engine::failure::{DB_OUT_OF_RANGE, Done, Failure};
use engine::session::ReplyMode;
use engine::spec::*;
use keyspace::Db;
use resp::Protocol;

pub(crate) const SELECT: CommandSpec = CommandSpec {
    name: "select",
    summary: "Change the selected database for the current connection",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Connection,
    arity: 2,
    flags: LOADING | STALE | FAST,
    traits: LOG_FRAME | SELECTS,
    acl: ACL_CONNECTION,
    args: &[integer("index")],
    run: Run::Session(select),
    ..CommandSpec::EMPTY
};

fn select(call: &mut Call<'_>) -> Done {
    let number = call.int32(1)?;
    if number != 0 && call.engine.cluster().is_on() && !call.session.replay {
        return Err("ERR SELECT is not allowed in cluster mode".into());
    }
    let db = usize::try_from(number).ok().and_then(|n| call.engine.config().database(n));
    let db = db.ok_or_else(|| Failure::from(DB_OUT_OF_RANGE))?;
    call.session.select(db);
    call.out.ok();
    Ok(())
}

pub(crate) const RESET: CommandSpec = CommandSpec {
    name: "reset",
    summary: "Reset the connection",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Connection,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
    traits: FOR_LISTENERS | IMMEDIATE,
    acl: ACL_CONNECTION,
    run: Run::Session(reset),
    ..CommandSpec::EMPTY
};

fn reset(call: &mut Call<'_>) -> Done {
    let session = &mut *call.session;
    queue::discard(call.engine, session);
    call.engine.set_monitor(&session.client, false);
    call.engine.tracking_clients().end(session);
    call.engine.hub().leave_all(&session.client, &mut session.subscriptions);
    session.client.no_touch.store(false, Relaxed);
    session.select(Db::default());
    session.cluster = None;
    session.set_protocol(Protocol::Resp2);
    session.reply = ReplyMode::On;
    session.set_quorum(None, call.engine.replication().quorum());
    session.client.name.lock().unwrap_or_else(PoisonError::into_inner).clear();
    call.engine.permissions().authenticate_default(session);
    call.out.set_protocol(Protocol::Resp2);
    call.out.simple("RESET");
    Ok(())
}
