//! FUNCTION DELETE and FUNCTION FLUSH.

use engine::call::{Call, Run};
use engine::execute::Scope;
use engine::failure::Done;
use engine::scripts::libraries::Known;
use engine::spec::*;
use keyspace::Txn;

use super::load::changed;
use super::wrong_arguments;

pub(super) const DELETE: CommandSpec = CommandSpec {
    name: "delete",
    summary: "Delete a function by name",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Scripting,
    arity: 3,
    flags: WRITE | NOSCRIPT,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    args: &[string("library-name")],
    run: Run::OwnLocks {
        run: |call| call.engine.transact(call, Scope::All, delete),
        within: delete,
    },
    ..CommandSpec::EMPTY
};

pub(super) const FLUSH: CommandSpec = CommandSpec {
    name: "flush",
    summary: "Deleting all functions",
    complexity: "O(N) where N is the number of functions deleted",
    arity: -2,
    args: &[oneof("async", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional()],
    run: Run::OwnLocks { run: |call| call.engine.transact(call, Scope::All, flush), within: flush },
    ..DELETE
};

fn delete(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let name = call.args[2];
    if !txn.libraries().delete(name)? {
        return Err("ERR Library not found".into());
    }
    changed(call, |known| known.remove(&String::from_utf8_lossy(name)));
    call.out.ok();
    Ok(())
}

/// Deletes all libraries. Their space is freed in the background, whether SYNC or ASYNC is given.
fn flush(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    match call.args.len() {
        2 => {}
        3 if call.is(2, "SYNC") || call.is(2, "ASYNC") => {}
        3 => return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
        _ => return Err(wrong_arguments(call)),
    }
    txn.libraries().flush()?;
    changed(call, Known::clear);
    call.out.ok();
    Ok(())
}
