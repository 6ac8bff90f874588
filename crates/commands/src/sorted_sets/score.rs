//! ZSCORE, ZMSCORE.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;
use keyspace::Txn;

use super::sorted_set;

pub(crate) const ZSCORE: CommandSpec = CommandSpec {
    name: "zscore",
    summary: "Get the score associated with the given member in a sorted set",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 3,
    flags: READONLY | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("member")],
    members: Some(Members::one(2)),
    run: Run::Keys(zscore),
    ..CommandSpec::EMPTY
};

fn zscore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let score = match sorted_set(call, txn)? {
        Some(sorted_set) => sorted_set.score(call.args[2])?,
        None => None,
    };
    reply(call, score);
    Ok(())
}

pub(crate) const ZMSCORE: CommandSpec = CommandSpec {
    name: "zmscore",
    summary: "Get the score associated with the given members in a sorted set",
    complexity: "O(N) where N is the number of members being requested.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: READONLY | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("member").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(zmscore),
    ..CommandSpec::EMPTY
};

fn zmscore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let found = sorted_set(call, txn)?;
    let score = |member: &&[u8]| match &found {
        Some(sorted_set) => Ok(sorted_set.score(member)?),
        None => Ok(None),
    };
    let scores: Result<Vec<Option<f64>>, Failure> = call.args[2..].iter().map(score).collect();
    let scores = scores?;
    call.out.array(scores.len());
    scores.into_iter().for_each(|score| reply(call, score));
    Ok(())
}

fn reply(call: &mut Call<'_>, score: Option<f64>) {
    match score {
        Some(score) => call.out.double(score),
        None => call.out.null(),
    }
}
