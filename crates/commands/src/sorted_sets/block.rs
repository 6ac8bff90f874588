//! BZPOPMIN, BZPOPMAX, BZMPOP: the blocking forms of ZPOPMIN, ZPOPMAX and ZMPOP.
//!
//! All are logged as the ZPOPMIN or ZPOPMAX that they amount to.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Key, Txn, Type};

use super::pop::{End, parse_many, reply_from, take};
use crate::blocking::{BlockedOperation, Serving, seconds, serve_or_block};

pub(crate) const BZPOPMIN: CommandSpec = CommandSpec {
    name: "bzpopmin",
    summary: "Remove and return the member with the lowest score from one or more sorted sets, or block until one is available",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "5.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: WRITE | NOSCRIPT | BLOCKING | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::range(1, -2, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    args: &[key("key", 0).multiple(), double("timeout")],
    run: Run::Keys(bzpopmin),
    ..CommandSpec::EMPTY
};

fn bzpopmin(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    pop(call, txn, End::Min)
}

pub(crate) const BZPOPMAX: CommandSpec = CommandSpec {
    name: "bzpopmax",
    summary: "Remove and return the member with the highest score from one or more sorted sets, or block until one is available",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "5.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: WRITE | NOSCRIPT | BLOCKING | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::range(1, -2, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    args: &[key("key", 0).multiple(), double("timeout")],
    run: Run::Keys(bzpopmax),
    ..CommandSpec::EMPTY
};

fn bzpopmax(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    pop(call, txn, End::Max)
}

fn pop(call: &mut Call<'_>, txn: &mut Txn<'_>, end: End) -> Done {
    let until = seconds(call, call.args.len() - 1)?;
    serve_or_block(call, txn, Type::SortedSet, call.keys, Pop { end, count: None }, until)
}

pub(crate) const BZMPOP: CommandSpec = CommandSpec {
    name: "bzmpop",
    summary: "Remove and return members with scores in a sorted set or block until one is available",
    complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
    since: "7.0.0",
    group: Group::SortedSet,
    arity: -5,
    flags: WRITE | BLOCKING,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::new(
        Begin::Index(2),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RW | KEY_ACCESS | KEY_DELETE,
    )],
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("min", "MIN"), token("max", "MAX")]),
        integer("count").token("COUNT").optional(),
    ],
    run: Run::Keys(bzmpop),
    ..CommandSpec::EMPTY
};

fn bzmpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (end, count) = parse_many(call, 2)?;
    let until = seconds(call, 1)?;
    let operation = Pop { end, count: Some(count) };
    serve_or_block(call, txn, Type::SortedSet, call.keys, operation, until)
}

/// Pops from one sorted set; the reply names the key. With a count it is the operation of BZMPOP.
struct Pop {
    end: End,
    count: Option<u64>,
}

impl BlockedOperation for Pop {
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        let taken = take(txn, serving.db, key, self.end, self.count.unwrap_or(1))?;
        let Some(taken) = taken else { return Ok(false) };
        match (self.count, taken.first()) {
            (None, Some((member, score))) => {
                serving.out.array(3);
                serving.out.bulk(key.bytes());
                serving.out.bulk(member);
                serving.out.double(*score);
            }
            _ => reply_from(serving.out, key, &taken),
        }
        let count = itoa::Buffer::new().format(taken.len()).to_owned();
        serving.wrote_as(&[self.end.command(), key.bytes(), count.as_bytes()]);
        let name = self.end.event();
        serving.notify_taken(EventClass::SortedSet, txn, name, key);
        Ok(true)
    }
}
