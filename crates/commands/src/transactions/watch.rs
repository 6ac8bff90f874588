//! WATCH and UNWATCH: make EXEC fail if a key has changed.
//!
//! The keyspace sets the session's flag in the transaction that changes a watched key, so that no
//! change can happen between the check of the flag and the execution.

use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

pub(crate) const WATCH: CommandSpec = CommandSpec {
    name: "watch",
    summary: "Watch the given keys to determine execution of the MULTI/EXEC block",
    complexity: "O(1) for every key.",
    since: "2.2.0",
    group: Group::Transactions,
    arity: -2,
    flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
    traits: IMMEDIATE,
    acl: ACL_TRANSACTION,
    keys: &[KeySpec::rest(1, 1, KEY_RO)],
    args: &[key("key", 0).multiple()],
    run: Run::Keys(watch),
    ..CommandSpec::EMPTY
};

fn watch(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.session.in_multi() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    call.out.ok();
    if call.session.is_touched() {
        return Ok(());
    }
    let db = call.db();
    for key in call.keys {
        let session = &mut *call.session;
        session.watches.extend(txn.watch(db, key, &session.touched));
    }
    call.session.client.watched.store(call.session.watches.len(), Relaxed);
    Ok(())
}

pub(crate) const UNWATCH: CommandSpec = CommandSpec {
    name: "unwatch",
    summary: "Forget about all watched keys",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
    acl: ACL_TRANSACTION,
    run: Run::Session(unwatch),
    ..CommandSpec::EMPTY
};

fn unwatch(call: &mut Call<'_>) -> Done {
    // Within EXEC, which ends all watches itself, this may be undone and repeated.
    if !call.is_inner() {
        call.engine.unwatch(call.session);
    }
    call.out.ok();
    Ok(())
}
