//! XAUTOCLAIM.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{StreamDelivery, StreamEdit, StreamGroup, StreamId, StreamPending, StreamRef, Txn};
use resp::Writer;

use super::log::Place;
use super::{group_mut, is_idle, min_idle};
use crate::streams::{id, reply};

pub(crate) const XAUTOCLAIM: CommandSpec = CommandSpec {
    name: "xautoclaim",
    summary: "Changes (or acquires) ownership of messages in a consumer group, as if the messages were delivered to the specified consumer.",
    complexity: "O(1) if COUNT is small.",
    since: "6.2.0",
    group: Group::Stream,
    arity: -6,
    flags: WRITE | FAST,
    acl: ACL_STREAM,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    history: &[(
        "7.0.0",
        "Added an element to the reply array, containing deleted entries the command cleared from the PEL",
    )],
    args: &[
        key("key", 0),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("start"),
        integer("count").token("COUNT").optional(),
        token("justid", "JUSTID").optional(),
    ],
    run: Run::Keys(xautoclaim),
    ..CommandSpec::EMPTY
};

/// The number of entries that are claimed by default.
const CLAIMED: u64 = 100;
/// The number of pending entries that are visited for each that may be claimed.
const ATTEMPTS: u64 = 10;
/// The maximum COUNT, as in Redis.
const MOST: u64 = i64::MAX as u64 / 16;

fn xautoclaim(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = Options::parse(call)?;
    let (stream, group) = group_mut(call, txn)?;
    let found = options.look(&stream, &group)?;
    let (db, key, name) = (call.db(), call.key(0), call.args[3]);
    call.out.array(3);
    reply::id(call.out, found.next);
    let mark = call.out.mark();
    let out = &mut *call.out;
    let (made, delivered) = match found.claimed.is_empty() && found.gone.is_empty() {
        true => {
            out.array(0);
            Default::default()
        }
        false => txn.streams().edit(db, &key, |edit| {
            out.truncate(mark);
            options.claim(edit, &group, &found, name, out)
        })?,
    };
    call.out.array(found.gone.len());
    found.gone.iter().for_each(|id| reply::id(call.out, *id));
    let place = Place { key: key.bytes(), group: call.args[2] };
    let mut serving = call.serving();
    if made {
        place.made_consumer(&mut serving, name);
    }
    for (id, delivery) in delivered {
        place.delivered(&mut serving, name, id, delivery, group.last);
    }
    found.gone.into_iter().for_each(|id| place.taken_out(&mut serving, id));
    Ok(())
}

/// Whether the consumer was created; and the entries delivered to it, when and how often.
type Claimed = (bool, Vec<(StreamId, StreamDelivery)>);

struct Options {
    idle: u64,
    start: StreamId,
    most: u64,
    only_ids: bool,
    now: u64,
}

/// The pending entries that may be claimed.
#[derive(Default)]
struct Found {
    claimed: Vec<StreamPending>,
    /// Pending entries that are no longer in the stream.
    gone: Vec<StreamId>,
    /// The ID to continue from; 0-0 at the end.
    next: StreamId,
}

impl Options {
    fn parse(call: &Call<'_>) -> Result<Options, Failure> {
        let idle = min_idle(call, "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
        let (mut start, is_exclusive) = id::bound(call.args[5], 0)?;
        if is_exclusive {
            start = start.next().ok_or("ERR invalid start ID for the interval")?;
        }
        let (mut most, mut only_ids, mut at) = (CLAIMED, false, 6);
        while at < call.args.len() {
            if call.is(at, "COUNT") && at + 1 < call.args.len() {
                at += 1;
                let count = call.int(at).ok().and_then(|count| u64::try_from(count).ok());
                let count = count.filter(|count| (1..=MOST).contains(count));
                most = count.ok_or("ERR COUNT must be > 0")?;
            } else if call.is(at, "JUSTID") {
                only_ids = true;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(Options { idle, start, most, only_ids, now: call.now_ms() })
    }

    /// Searches for entries that can be claimed.
    fn look(&self, stream: &StreamRef<'_>, group: &StreamGroup) -> Result<Found, Failure> {
        let (mut found, mut lost) = (Found::default(), None);
        let (mut left, mut attempts) = (self.most, self.most * ATTEMPTS);
        stream.visit_pending(group, None, self.start, |pending| {
            if left == 0 || attempts == 0 {
                found.next = pending.id;
                return false;
            }
            attempts -= 1;
            match stream.contains(pending.id) {
                Err(error) => lost = Some(error),
                Ok(false) => {
                    found.gone.push(pending.id);
                    left -= 1;
                }
                Ok(true) if is_idle(self.now, pending.delivered, self.idle) => {
                    found.claimed.push(*pending);
                    left -= 1;
                }
                Ok(true) => {}
            }
            lost.is_none()
        })?;
        lost.map_or(Ok(found), |error| Err(error.into()))
    }

    fn claim(
        &self,
        edit: &mut StreamEdit<'_, '_>,
        group: &StreamGroup,
        found: &Found,
        name: &[u8],
        out: &mut Writer,
    ) -> Result<Claimed, keyspace::Error> {
        for &id in &found.gone {
            edit.acknowledge(group, id)?;
        }
        out.array(found.claimed.len());
        let (mut made, mut delivered) = (false, Vec::new());
        if found.claimed.is_empty() {
            return Ok((made, delivered));
        }
        let (consumer, is_new) = edit.see_consumer(group, name, self.now, true)?;
        made |= is_new;
        for pending in &found.claimed {
            let count = pending.count.saturating_add(u64::from(!self.only_ids));
            let delivery = StreamDelivery { at_ms: self.now, count };
            edit.deliver(group, &consumer, pending.id, delivery)?;
            delivered.push((pending.id, delivery));
            match self.only_ids {
                true => reply::id(out, pending.id),
                false => drop(reply::entry_of(out, &edit.read(), pending.id)?),
            }
        }
        Ok((made, delivered))
    }
}
