//! XPENDING.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{StreamGroup, StreamId, StreamPending, StreamRef, Txn};

use super::{group, is_idle};
use crate::streams::{id, reply};

pub(crate) const XPENDING: CommandSpec = CommandSpec {
    name: "xpending",
    summary: "Return information and entries from a stream consumer group pending entries list, that are messages fetched but never acknowledged.",
    complexity: "O(N) with N being the number of elements returned, so asking for a small fixed number of entries per call is O(1). O(M), where M is the total number of entries scanned when used with the IDLE filter. When the command returns just the summary and the list of consumers is small, it runs in O(1) time; otherwise, an additional O(N) time for iterating every consumer.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -3,
    flags: READONLY,
    acl: ACL_STREAM,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("6.2.0", "Added the `IDLE` option and exclusive range intervals.")],
    args: &[
        key("key", 0),
        string("group"),
        block(
            "filters",
            &[
                integer("min-idle-time").token("IDLE").since("6.2.0").optional(),
                string("start"),
                string("end"),
                integer("count"),
                string("consumer").optional(),
            ],
        )
        .optional(),
    ],
    run: Run::Keys(xpending),
    ..CommandSpec::EMPTY
};

fn xpending(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let range = match call.args.len() {
        3 => None,
        6..=9 => Some(Range::parse(call)?),
        _ => return Err(SYNTAX.into()),
    };
    let (stream, group) = group(call, txn)?;
    match range {
        None => summary(call, &stream, &group),
        Some(range) => show(call, &stream, &group, &range),
    }
}

/// Replies with the number of pending entries, their first and last IDs, and their consumers.
fn summary(call: &mut Call<'_>, stream: &StreamRef<'_>, group: &StreamGroup) -> Done {
    call.out.array(4);
    let Some((first, last)) = stream.pending_ends(group)? else {
        call.out.integer(0);
        call.out.null();
        call.out.null();
        call.out.null_array();
        return Ok(());
    };
    call.out.integer(stream.pending_count(group) as i64);
    reply::id(call.out, first);
    reply::id(call.out, last);
    let consumers = stream.consumers(group)?;
    let counted = consumers.iter().map(|(name, one)| (name, stream.pending_count_of(one)));
    let counted: Vec<(&Vec<u8>, u64)> = counted.filter(|(_, count)| *count > 0).collect();
    call.out.array(counted.len());
    for (name, count) in counted {
        call.out.array(2);
        call.out.bulk(name);
        call.out.bulk(count.to_string());
    }
    Ok(())
}

fn show(
    call: &mut Call<'_>,
    stream: &StreamRef<'_>,
    group: &StreamGroup,
    range: &Range<'_>,
) -> Done {
    let consumer = match range.consumer {
        Some(name) => match stream.consumer(group, name)? {
            None => {
                call.out.array(0);
                return Ok(());
            }
            found => found,
        },
        None => None,
    };
    let (now, mut left) = (call.now_ms(), range.most);
    let (array, mut shown, mut lost) = (call.out.deferred(), 0, None);
    let mut show = |pending: &StreamPending| {
        if left == 0 || pending.id > range.end {
            return false;
        }
        if is_idle(now, pending.delivered, range.idle) {
            match stream.owner_name(group, pending) {
                Ok(name) => one(call, pending, &name, now),
                Err(error) => lost = Some(error),
            }
            (left, shown) = (left - 1, shown + 1);
        }
        lost.is_none()
    };
    stream.visit_pending(group, consumer.as_ref(), range.start, &mut show)?;
    if let Some(error) = lost {
        return Err(error.into());
    }
    call.out.finish_array(array, shown);
    Ok(())
}

fn one(call: &mut Call<'_>, pending: &StreamPending, consumer: &[u8], now: u64) {
    call.out.array(4);
    reply::id(call.out, pending.id);
    call.out.bulk(consumer);
    call.out.integer(now.saturating_sub(pending.delivered) as i64);
    call.out.integer(pending.count as i64);
}

/// The arguments of the command.
struct Range<'a> {
    /// The minimum time since the last delivery, in milliseconds.
    idle: u64,
    start: StreamId,
    end: StreamId,
    most: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Range<'a> {
    fn parse(call: &Call<'a>) -> Result<Range<'a>, Failure> {
        let (mut at, mut idle) = (3, 0);
        if call.is(at, "IDLE") {
            idle = call.int(at + 1)?.max(0) as u64;
            if call.args.len() < 8 {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        let most = call.int(at + 2)?.max(0) as u64;
        let (mut start, is_exclusive) = id::bound(call.args[at], 0)?;
        if is_exclusive {
            start = start.next().ok_or("ERR invalid start ID for the interval")?;
        }
        let (mut end, is_before) = id::bound(call.args[at + 1], u64::MAX)?;
        if is_before {
            end = end.prev().ok_or("ERR invalid end ID for the interval")?;
        }
        Ok(Range { idle, start, end, most, consumer: call.args.get(at + 3).copied() })
    }
}
