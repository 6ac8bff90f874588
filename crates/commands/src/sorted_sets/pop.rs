//! ZPOPMIN, ZPOPMAX, ZMPOP.
//!
//! ZMPOP is logged as the ZPOPMIN or ZPOPMAX that it amounts to.

use engine::call::{Call, MOST_REPLY, Run, Words};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Db, Key, Limits, Txn};
use resp::number::parse_i64;
use resp::{Protocol, Writer};

use super::Scored;
use crate::collections::pops_of_one;

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The lowest scores.
    Min,
    /// The highest scores.
    Max,
}

impl End {
    /// Returns the command that pops from this end.
    pub(crate) fn command(self) -> &'static [u8] {
        match self {
            End::Min => b"ZPOPMIN",
            End::Max => b"ZPOPMAX",
        }
    }

    /// Returns the event of a pop from this end.
    pub(crate) fn event(self) -> &'static str {
        match self {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        }
    }
}

pub(crate) const ZPOPMIN: CommandSpec = CommandSpec {
    name: "zpopmin",
    summary: "Remove and return members with the lowest scores in a sorted set",
    complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
    since: "5.0.0",
    group: Group::SortedSet,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    args: &[key("key", 0), integer("count").optional()],
    weigh: Some(weights::reads_count),
    run: Run::Keys(zpopmin),
    joined: Some(zpopmin_joined),
    ..CommandSpec::EMPTY
};

fn zpopmin(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    pop(call, txn, End::Min)
}

pub(crate) const ZPOPMAX: CommandSpec = CommandSpec {
    name: "zpopmax",
    summary: "Remove and return members with the highest scores in a sorted set",
    complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
    since: "5.0.0",
    group: Group::SortedSet,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    args: &[key("key", 0), integer("count").optional()],
    weigh: Some(weights::reads_count),
    run: Run::Keys(zpopmax),
    joined: Some(zpopmax_joined),
    ..CommandSpec::EMPTY
};

fn zpopmax(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    pop(call, txn, End::Max)
}

fn pop(call: &mut Call<'_>, txn: &mut Txn<'_>, end: End) -> Done {
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let count = match call.args.get(2) {
        Some(count) => Some(
            parse_i64(count)
                .and_then(|count| u64::try_from(count).ok())
                .ok_or("ERR value is out of range, must be positive")?,
        ),
        None => None,
    };
    let taken = take(txn, call.db(), &call.key(0), end, count.unwrap_or(1))?.unwrap_or_default();
    if !taken.is_empty() {
        call.wrote();
        call.notify_taken(EventClass::SortedSet, txn, end.event(), &call.key(0));
    }
    let nested = count.is_some() && call.out.protocol() == Protocol::Resp3;
    call.out.array(if nested { taken.len() } else { 2 * taken.len() });
    reply_pairs(call.out, &taken, nested);
    Ok(())
}

fn zpopmin_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    pop_joined(call, txn, requests, End::Min)
}

fn zpopmax_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    pop_joined(call, txn, requests, End::Max)
}

/// Pops one member for each of several requests, from a sorted set that has more.
fn pop_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
    end: End,
) -> Result<usize, Failure> {
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.peek(db, &key) else { return Ok(0) };
    let most = txn.sorted_set(&entry)?.len().saturating_sub(1);
    let requests = pops_of_one(requests, most);
    if requests.len() < 2 {
        return Ok(0);
    }
    let taken = take(txn, db, &key, end, requests.len() as u64)?.unwrap_or_default();
    if taken.iter().map(|(member, _)| member.len()).sum::<usize>() > MOST_REPLY {
        return Err(Failure::takes_long(None));
    }
    for (args, scored) in requests.iter().zip(taken.chunks(1)) {
        call.begin_joined(args);
        call.wrote();
        call.notify(EventClass::SortedSet, end.event(), &key);
        call.out.array(2);
        reply_pairs(call.out, scored, false);
    }
    Ok(taken.len())
}

pub(crate) const ZMPOP: CommandSpec = CommandSpec {
    name: "zmpop",
    summary: "Remove and return members with scores in a sorted set",
    complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
    since: "7.0.0",
    group: Group::SortedSet,
    arity: -4,
    flags: WRITE,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::new(
        Begin::Index(1),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RW | KEY_ACCESS | KEY_DELETE,
    )],
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("min", "MIN"), token("max", "MAX")]),
        integer("count").token("COUNT").optional(),
    ],
    weigh: Some(weights::reads_some),
    run: Run::Keys(zmpop),
    ..CommandSpec::EMPTY
};

fn zmpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (end, count) = parse_many(call, 1)?;
    for number in 0..call.keys.len() {
        let key = call.key(number);
        if let Some(taken) = take(txn, call.db(), &key, end, count)? {
            reply_from(call.out, &key, &taken);
            let count = itoa::Buffer::new().format(taken.len()).to_owned();
            call.wrote_as(&[end.command(), key.bytes(), count.as_bytes()]);
            call.notify_taken(EventClass::SortedSet, txn, end.event(), &key);
            return Ok(());
        }
    }
    call.out.null_array();
    Ok(())
}

/// Removes up to `count` members from one end of a sorted set, and returns them from that end on;
/// `None` if there is no key. The caller logs it.
pub(crate) fn take(
    txn: &mut Txn<'_>,
    db: Db,
    key: &Key<'_>,
    end: End,
    count: u64,
) -> Result<Option<Scored>, Failure> {
    let mut edit = txn.sorted_sets().edit(db, key, Limits::NONE)?;
    let len = edit.len(txn);
    if len == 0 {
        return Ok(None);
    }
    let count = count.min(len);
    let first = if end == End::Min { 0 } else { len - count };
    let mut taken = Scored::new();
    edit.remove_range(txn, first, count, |member, score| taken.push((member.to_vec(), score)))?;
    edit.finish(txn, db, key)?;
    if end == End::Max {
        taken.reverse();
    }
    Ok(Some(taken))
}

/// Writes the reply of ZMPOP and its blocking form: the key, and the popped members.
pub(crate) fn reply_from(out: &mut Writer, key: &Key<'_>, taken: &Scored) {
    out.array(2);
    out.bulk(key.bytes());
    out.array(taken.len());
    reply_pairs(out, taken, true);
}

fn reply_pairs(out: &mut Writer, taken: &[(Vec<u8>, f64)], nested: bool) {
    for (member, score) in taken {
        if nested {
            out.array(2);
        }
        out.bulk(member);
        out.double(*score);
    }
}

/// Parses the arguments from the number of keys on: the end, and the number of members.
pub(crate) fn parse_many(call: &Call<'_>, at: usize) -> Result<(End, u64), Failure> {
    let keys = parse_i64(call.args[at]).filter(|&keys| keys > 0);
    let keys = keys.ok_or("ERR numkeys should be greater than 0")?;
    let place = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(at + 1));
    let place = place.filter(|&place| place < call.args.len()).ok_or(SYNTAX)?;
    let end = match () {
        () if call.is(place, "MIN") => End::Min,
        () if call.is(place, "MAX") => End::Max,
        () => return Err(SYNTAX.into()),
    };
    let mut count = None;
    let mut rest = call.args[place + 1..].iter();
    while let Some(word) = rest.next() {
        let is_count = count.is_none() && word.eq_ignore_ascii_case(b"COUNT");
        let number = rest.next().filter(|_| is_count).ok_or(SYNTAX)?;
        let number = parse_i64(number).filter(|&number| number > 0);
        count = Some(number.ok_or("ERR count should be greater than 0")?);
    }
    Ok((end, count.unwrap_or(1) as u64))
}
