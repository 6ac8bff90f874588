//! ZRANK, ZREVRANK.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::Txn;

use super::sorted_set;

pub(crate) const ZRANK: CommandSpec = CommandSpec {
    name: "zrank",
    summary: "Determine the index of a member in a sorted set",
    complexity: "O(log(N))",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: READONLY | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
    args: &[
        key("key", 0),
        string("member"),
        token("withscore", "WITHSCORE").since("7.2.0").optional(),
    ],
    members: Some(Members::one(2)),
    run: Run::Keys(zrank),
    ..CommandSpec::EMPTY
};

fn zrank(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    rank(call, txn, false)
}

pub(crate) const ZREVRANK: CommandSpec = CommandSpec {
    name: "zrevrank",
    summary: "Determine the index of a member in a sorted set, with scores ordered from high to low",
    members: Some(Members::one(2)),
    run: Run::Keys(zrevrank),
    ..ZRANK
};

fn zrevrank(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    rank(call, txn, true)
}

fn rank(call: &mut Call<'_>, txn: &mut Txn<'_>, from_top: bool) -> Done {
    if call.args.len() > 4 {
        let name = call.command.spec.name;
        return Err(Failure::text(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let with_score = call.args.len() == 4;
    if with_score && !call.is(3, "WITHSCORE") {
        return Err(SYNTAX.into());
    }
    let found = match sorted_set(call, txn)? {
        Some(sorted_set) => sorted_set.rank(call.args[2])?.map(|(rank, score)| {
            (if from_top { sorted_set.len() - 1 - rank } else { rank }, score)
        }),
        None => None,
    };
    match found {
        Some((rank, score)) if with_score => {
            call.out.array(2);
            call.out.integer(rank as i64);
            call.out.double(score);
        }
        Some((rank, _)) => call.out.integer(rank as i64),
        None if with_score => call.out.null_array(),
        None => call.out.null(),
    }
    Ok(())
}
