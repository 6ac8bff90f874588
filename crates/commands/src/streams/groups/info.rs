//! XINFO GROUPS and CONSUMERS, and the groups in XINFO STREAM FULL.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NO_SUCH_KEY};
use engine::spec::*;
use keyspace::{
    StreamConsumer, StreamGroup, StreamId, StreamPending, StreamProgress, StreamRef, Txn,
};
use resp::Writer;

use super::no_group_of;
use crate::streams::{reply, stream};

/// Stands for a time: the consumer was never active.
const NEVER: i64 = -1;

pub(crate) const XINFO_GROUPS: CommandSpec = CommandSpec {
    name: "groups",
    summary: "List the consumer groups of a stream",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 3,
    flags: READONLY,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RO | KEY_ACCESS)],
    history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
    args: &[key("key", 0)],
    run: Run::Keys(xinfo_groups),
    ..CommandSpec::EMPTY
};

fn xinfo_groups(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let Some(stream) = stream(call, txn, 0)? else { return Err(NO_SUCH_KEY.into()) };
    let (groups, entries) = (stream.groups()?, StreamProgress::of(&stream)?);
    let out = &mut *call.out;
    out.array(groups.len());
    for (name, group) in groups {
        out.map(6);
        out.bulk("name");
        out.bulk(&name);
        out.bulk("consumers");
        out.integer(stream.consumer_count(&group) as i64);
        out.bulk("pending");
        out.integer(stream.pending_count(&group) as i64);
        progress(out, &group, &entries);
    }
    Ok(())
}

/// Writes how far a group has read.
fn progress(out: &mut Writer, group: &StreamGroup, entries: &StreamProgress) {
    let number = |out: &mut Writer, number: Option<i64>| match number {
        Some(number) => out.integer(number),
        None => out.null(),
    };
    out.bulk("last-delivered-id");
    reply::id(out, group.last);
    out.bulk("entries-read");
    number(out, group.read.map(|read| read as i64));
    out.bulk("lag");
    number(out, entries.lag(group));
}

pub(crate) const XINFO_CONSUMERS: CommandSpec = CommandSpec {
    name: "consumers",
    summary: "List the consumers in a consumer group",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 4,
    flags: READONLY,
    acl: ACL_STREAM,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(2, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("groupname")],
    run: Run::Keys(xinfo_consumers),
    ..CommandSpec::EMPTY
};

fn xinfo_consumers(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let Some(stream) = stream(call, txn, 0)? else { return Err(NO_SUCH_KEY.into()) };
    let group = stream.group(call.args[3])?;
    let group = group.ok_or_else(|| no_group_of(call.args[2], call.args[3]))?;
    let (consumers, now) = (stream.consumers(&group)?, call.now_ms());
    let out = &mut *call.out;
    out.array(consumers.len());
    for (name, consumer) in consumers {
        let since = |then: u64| now.saturating_sub(then) as i64;
        out.map(4);
        out.bulk("name");
        out.bulk(&name);
        out.bulk("pending");
        out.integer(stream.pending_count_of(&consumer) as i64);
        out.bulk("idle");
        out.integer(since(consumer.seen));
        out.bulk("inactive");
        out.integer(consumer.active.map_or(NEVER, since));
    }
    Ok(())
}

/// Writes all groups with their consumers, and up to `most` pending entries of each group and of
/// each consumer; 0 for all.
pub(in crate::streams) fn full(
    out: &mut Writer,
    stream: &StreamRef<'_>,
    most: u64,
) -> Result<(), Failure> {
    let (groups, entries) = (stream.groups()?, StreamProgress::of(stream)?);
    out.array(groups.len());
    for (name, group) in groups {
        out.map(7);
        out.bulk("name");
        out.bulk(&name);
        progress(out, &group, &entries);
        out.bulk("pel-count");
        out.integer(stream.pending_count(&group) as i64);
        out.bulk("pending");
        pending(out, stream, &group, None, most)?;
        out.bulk("consumers");
        let consumers = stream.consumers(&group)?;
        out.array(consumers.len());
        for (name, consumer) in consumers {
            out.map(5);
            out.bulk("name");
            out.bulk(&name);
            out.bulk("seen-time");
            out.integer(consumer.seen as i64);
            out.bulk("active-time");
            out.integer(consumer.active.map_or(NEVER, |active| active as i64));
            out.bulk("pel-count");
            out.integer(stream.pending_count_of(&consumer) as i64);
            out.bulk("pending");
            pending(out, stream, &group, Some(&consumer), most)?;
        }
    }
    Ok(())
}

/// Writes pending entries; those of all consumers with the consumers' names.
fn pending(
    out: &mut Writer,
    stream: &StreamRef<'_>,
    group: &StreamGroup,
    consumer: Option<&StreamConsumer>,
    most: u64,
) -> Result<(), Failure> {
    let mut all: Vec<StreamPending> = Vec::new();
    stream.visit_pending(group, consumer, StreamId::MIN, |pending| {
        all.push(*pending);
        all.len() as u64 != most
    })?;
    out.array(all.len());
    for pending in all {
        out.array(if consumer.is_some() { 3 } else { 4 });
        reply::id(out, pending.id);
        if consumer.is_none() {
            out.bulk(stream.owner_name(group, &pending)?);
        }
        out.integer(pending.delivered as i64);
        out.integer(pending.count as i64);
    }
    Ok(())
}
