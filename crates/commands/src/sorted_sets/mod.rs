//! Sorted sets: members, ordered by their scores.

pub(crate) mod add;
mod algebra;
mod block;
mod bound;
mod combine;
mod count;
mod gathered;
mod pop;
mod random;
mod range;
mod rank;
mod remove;
mod scan;
mod score;
mod select;
pub(crate) mod store;

use engine::call::Call;
use engine::failure::Failure;
use engine::spec::CommandSpec;
use keyspace::{Key, SortedSetRef, Txn};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &add::ZADD,
    &add::ZINCRBY,
    &algebra::ZDIFF,
    &algebra::ZDIFFSTORE,
    &algebra::ZINTER,
    &algebra::ZINTERCARD,
    &algebra::ZINTERSTORE,
    &algebra::ZUNION,
    &algebra::ZUNIONSTORE,
    &block::BZMPOP,
    &block::BZPOPMAX,
    &block::BZPOPMIN,
    &count::ZCARD,
    &count::ZCOUNT,
    &count::ZLEXCOUNT,
    &pop::ZMPOP,
    &pop::ZPOPMAX,
    &pop::ZPOPMIN,
    &random::ZRANDMEMBER,
    &range::ZRANGE,
    &range::ZRANGEBYLEX,
    &range::ZRANGEBYSCORE,
    &range::ZREVRANGE,
    &range::ZREVRANGEBYLEX,
    &range::ZREVRANGEBYSCORE,
    &rank::ZRANK,
    &rank::ZREVRANK,
    &remove::ZREM,
    &remove::ZREMRANGEBYLEX,
    &remove::ZREMRANGEBYRANK,
    &remove::ZREMRANGEBYSCORE,
    &scan::ZSCAN,
    &score::ZMSCORE,
    &score::ZSCORE,
    &store::ZRANGESTORE,
];

/// Members with their scores.
pub(crate) type Scored = Vec<(Vec<u8>, f64)>;

/// Returns the sorted set at a key, for a command that reads.
fn sorted_set_at<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
    key: &Key<'_>,
) -> Result<Option<SortedSetRef<'t>>, Failure> {
    match txn.find(call.db(), key) {
        Some(entry) => Ok(Some(txn.sorted_set(&entry)?)),
        None => Ok(None),
    }
}

/// Returns the sorted set at the command's key, for a command that reads.
pub(crate) fn sorted_set<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
) -> Result<Option<SortedSetRef<'t>>, Failure> {
    sorted_set_at(call, txn, &call.key(0))
}

/// Writes the header of a reply of this many members, each to be written by [`reply_member`].
fn reply_header(call: &mut Call<'_>, count: usize, with_scores: bool) {
    let flat = with_scores && call.out.protocol() == resp::Protocol::Resp2;
    call.out.array(if flat { 2 * count } else { count });
}

/// Writes a member, with its score if asked for: a pair of its own in RESP3.
fn reply_member(call: &mut Call<'_>, member: &[u8], score: f64, with_scores: bool) {
    if with_scores && call.out.protocol() == resp::Protocol::Resp3 {
        call.out.array(2);
    }
    call.out.bulk(member);
    if with_scores {
        call.out.double(score);
    }
}
