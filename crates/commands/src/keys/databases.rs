//! DBSIZE, FLUSHDB, FLUSHALL, SWAPDB: commands on whole databases.
//!
//! They see all shards at one moment. Flushed keys are freed in the background, whether SYNC or
//! ASYNC is given; the reply means that the keys are gone for good.

use engine::call::{Call, Run};
use engine::failure::{DB_OUT_OF_RANGE, Done, Failure, SYNTAX};
use engine::log::Delivery;
use engine::spec::*;
use keyspace::{Db, Txn};

pub(crate) const DBSIZE: CommandSpec = CommandSpec {
    name: "dbsize",
    summary: "Return the number of keys in the selected database",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    run: Run::All(dbsize),
    ..CommandSpec::EMPTY
};

fn dbsize(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    call.out.integer(txn.database(call.db()).count() as i64);
    Ok(())
}

pub(crate) const FLUSHDB: CommandSpec = CommandSpec {
    name: "flushdb",
    summary: "Remove all keys from the current database",
    complexity: "O(N) where N is the number of keys in the selected database",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: WRITE,
    acl: ACL_KEYSPACE | ACL_DANGEROUS,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    history: &[
        ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
        ("6.2.0", "Added the `SYNC` flushing mode modifier."),
    ],
    args: &[oneof(
        "async",
        &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")],
    )
    .optional()],
    run: Run::All(flushdb),
    ..CommandSpec::EMPTY
};

fn flushdb(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    flush(call, txn, &[call.db()])
}

pub(crate) const FLUSHALL: CommandSpec = CommandSpec {
    name: "flushall",
    summary: "Remove all keys from all databases",
    complexity: "O(N) where N is the total number of keys in all databases",
    run: Run::All(flushall),
    ..FLUSHDB
};

fn flushall(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let all: Vec<Db> = Db::all().collect();
    flush(call, txn, &all)?;
    if let Some(host) = call.engine.host() {
        host.end_save();
    }
    Ok(())
}

fn flush(call: &mut Call<'_>, txn: &mut Txn<'_>, databases: &[Db]) -> Done {
    let known = call.args.len() == 1
        || (call.args.len() == 2 && (call.is(1, "SYNC") || call.is(1, "ASYNC")));
    if !known {
        return Err(SYNTAX.into());
    }
    let mut flushed = 0;
    for db in databases {
        flushed += txn.databases().flush(*db)?;
    }
    match flushed {
        // A replica may have keys that its primary has not.
        0 => call.propagate(),
        _ => call.wrote(),
    }
    call.effects.deliver(Delivery::Flushed(txn.pending_changes()));
    call.out.ok();
    Ok(())
}

pub(crate) const SWAPDB: CommandSpec = CommandSpec {
    name: "swapdb",
    summary: "Swaps two Redis databases",
    complexity: "O(N) where N is the count of clients watching or blocking on keys from both databases.",
    since: "4.0.0",
    group: Group::Server,
    arity: 3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE | ACL_DANGEROUS,
    args: &[integer("index1"), integer("index2")],
    run: Run::All(swapdb),
    ..CommandSpec::EMPTY
};

fn swapdb(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.engine.cluster().is_on() {
        return Err("ERR SWAPDB is not allowed in cluster mode".into());
    }
    let first = call.int32(1).map_err(|_| Failure::from("ERR invalid first DB index"))?;
    let second = call.int32(2).map_err(|_| Failure::from("ERR invalid second DB index"))?;
    let database =
        |number: i32| usize::try_from(number).ok().and_then(|n| call.engine.config().database(n));
    let (Some(first), Some(second)) = (database(first), database(second)) else {
        return Err(DB_OUT_OF_RANGE.into());
    };
    if first != second {
        txn.databases().swap(first, second)?;
        call.wrote();
    }
    call.out.ok();
    Ok(())
}
