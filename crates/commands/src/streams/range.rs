//! XLEN, XRANGE, XREVRANGE.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;
use keyspace::{StreamId, Txn};

use super::{id, reply, stream};

pub(crate) const XLEN: CommandSpec = CommandSpec {
    name: "xlen",
    summary: "Return the number of entries in a stream",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(xlen),
    ..CommandSpec::EMPTY
};

fn xlen(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let len = stream(call, txn, 0)?.map_or(0, |stream| stream.head().len);
    call.out.integer(len as i64);
    Ok(())
}

pub(crate) const XRANGE: CommandSpec = CommandSpec {
    name: "xrange",
    summary: "Return a range of elements in a stream, with IDs matching the specified IDs interval",
    complexity: "O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: READONLY,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("6.2.0", "Added exclusive ranges.")],
    args: &[
        key("key", 0),
        string("start"),
        string("end"),
        integer("count").token("COUNT").optional(),
    ],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(xrange),
    ..CommandSpec::EMPTY
};

fn xrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, false)
}

pub(crate) const XREVRANGE: CommandSpec = CommandSpec {
    name: "xrevrange",
    summary: "Return a range of elements in a stream, with IDs matching the specified IDs interval, in reverse order (from greater to smaller IDs) compared to XRANGE",
    complexity: "O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1).",
    since: "5.0.0",
    group: Group::Stream,
    arity: -4,
    flags: READONLY,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("6.2.0", "Added exclusive ranges.")],
    args: &[
        key("key", 0),
        string("end"),
        string("start"),
        integer("count").token("COUNT").optional(),
    ],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(xrevrange),
    ..CommandSpec::EMPTY
};

fn xrevrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    range(call, txn, true)
}

/// Parses an interval of IDs.
pub(super) fn interval(
    start: &[u8],
    end: &[u8],
) -> Result<(StreamId, StreamId), engine::failure::Failure> {
    let (mut first, left_out) = id::bound(start, 0)?;
    if left_out {
        first = first.next().ok_or("ERR invalid start ID for the interval")?;
    }
    let (mut last, left_out) = id::bound(end, u64::MAX)?;
    if left_out {
        last = last.prev().ok_or("ERR invalid end ID for the interval")?;
    }
    Ok((first, last))
}

fn range(call: &mut Call<'_>, txn: &mut Txn<'_>, reversed: bool) -> Done {
    let (start, end) = if reversed { (3, 2) } else { (2, 3) };
    let (first, last) = interval(call.args[start], call.args[end])?;
    let mut most = None;
    let mut at = 4;
    while at < call.args.len() {
        if !call.is(at, "COUNT") || at + 1 >= call.args.len() {
            return Err(SYNTAX.into());
        }
        most = Some(call.int(at + 1)?.max(0) as u64);
        at += 2;
    }
    match stream(call, txn, 0)? {
        None => call.out.array(0),
        Some(_) if most == Some(0) => call.out.null_array(),
        Some(stream) => {
            reply::entries(call.out, &stream, first, last, most.unwrap_or(0), reversed)?
        }
    }
    Ok(())
}
