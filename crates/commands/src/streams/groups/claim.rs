//! XCLAIM.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;
use keyspace::{StreamDelivery, StreamEdit, StreamGroup, StreamId, Txn};
use resp::Writer;

use super::log::Place;
use super::{group_mut, is_idle, min_idle};
use crate::streams::{id, reply};

pub(crate) const XCLAIM: CommandSpec = CommandSpec {
    name: "xclaim",
    summary: "Changes (or acquires) ownership of a message in a consumer group, as if the message was delivered to the specified consumer.",
    complexity: "O(log N) with N being the number of messages in the PEL of the consumer group.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -6,
    flags: WRITE | FAST,
    acl: ACL_STREAM,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    args: &[
        key("key", 0),
        string("group"),
        string("consumer"),
        string("min-idle-time"),
        string("id").multiple(),
        integer("ms").token("IDLE").optional(),
        unix_time("unix-time-milliseconds").token("TIME").optional(),
        integer("count").token("RETRYCOUNT").optional(),
        token("force", "FORCE").optional(),
        token("justid", "JUSTID").optional(),
        string("id").token("LASTID").optional(),
    ],
    run: Run::Keys(xclaim),
    ..CommandSpec::EMPTY
};

fn xclaim(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (_, mut group) = group_mut(call, txn)?;
    let idle = min_idle(call, "ERR Invalid min-idle-time argument for XCLAIM")?;
    let options = Options::parse(call, idle)?;
    let reads_on = options.last > group.last;
    group.last = group.last.max(options.last);
    let (db, key, name) = (call.db(), call.key(0), call.args[3]);
    let (array, mark) = (call.out.deferred(), call.out.mark());
    let out = &mut *call.out;
    let claimed = txn.streams().edit(db, &key, |edit| {
        out.truncate(mark);
        if reads_on {
            edit.save_group(&mut group);
        }
        options.claim(edit, &group, name, out)
    })?;
    call.out.finish_array(array, claimed.shown);
    let place = Place { key: key.bytes(), group: call.args[2] };
    let mut serving = call.serving();
    if claimed.made_consumer {
        place.made_consumer(&mut serving, name);
    }
    for (id, delivery) in claimed.delivered {
        place.delivered(&mut serving, name, id, delivery, group.last);
    }
    claimed.gone.into_iter().for_each(|id| place.taken_out(&mut serving, id));
    if reads_on {
        place.read_on(&mut serving, &group);
    }
    Ok(())
}

/// The outcome.
#[derive(Default)]
struct Claimed {
    made_consumer: bool,
    shown: usize,
    delivered: Vec<(StreamId, StreamDelivery)>,
    /// Pending entries that are no longer in the stream.
    gone: Vec<StreamId>,
}

struct Options {
    ids: Vec<StreamId>,
    idle: u64,
    now: u64,
    /// The delivery time to set, unix ms.
    at: u64,
    count: Option<u64>,
    force: bool,
    only_ids: bool,
    last: StreamId,
    /// True for a command from a log, which is applied whatever the stream contains now.
    replay: bool,
}

impl Options {
    fn parse(call: &Call<'_>, idle: u64) -> Result<Options, Failure> {
        let (now, replay) = (super::seen_ms(call), call.session.replay);
        let words = call.args[5..].iter().map_while(|word| id::strict(word, 0).ok());
        let ids: Vec<StreamId> = words.collect();
        let mut at = 5 + ids.len();
        let (last, count) = (StreamId::MIN, None);
        let mut options =
            Options { ids, idle, now, at: now, count, force: false, only_ids: false, last, replay };
        while at < call.args.len() {
            let has_more = at + 1 < call.args.len();
            let number = |error: &'static str| call.int(at + 1).map_err(|_| error);
            if call.is(at, "FORCE") {
                options.force = true;
            } else if call.is(at, "JUSTID") {
                options.only_ids = true;
            } else if call.is(at, "IDLE") && has_more {
                let idle = number("ERR Invalid IDLE option argument for XCLAIM")?;
                options.at = options.time((now as i64).wrapping_sub(idle));
                at += 1;
            } else if call.is(at, "TIME") && has_more {
                options.at = options.time(number("ERR Invalid TIME option argument for XCLAIM")?);
                at += 1;
            } else if call.is(at, "RETRYCOUNT") && has_more {
                let count = number("ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                options.count = u64::try_from(count).ok();
                at += 1;
            } else if call.is(at, "LASTID") && has_more {
                options.last = id::strict(call.args[at + 1], 0)?;
                at += 1;
            } else {
                let parts =
                    [b"ERR Unrecognized XCLAIM option '", super::printed(call.args[at]), b"'"];
                return Err(Failure::text(parts.concat()));
            }
            at += 1;
        }
        Ok(options)
    }

    /// Corrects a delivery time: clients have clocks of their own.
    fn time(&self, at: i64) -> u64 {
        match u64::try_from(at) {
            Ok(at) if at <= self.now || self.replay => at,
            _ => self.now,
        }
    }

    fn claim(
        &self,
        edit: &mut StreamEdit<'_, '_>,
        group: &StreamGroup,
        name: &[u8],
        out: &mut Writer,
    ) -> Result<Claimed, keyspace::Error> {
        let (mut claimed, mut consumer) = (Claimed::default(), None);
        for &id in &self.ids {
            let pending = edit.read().pending(group, id)?;
            let is_there =
                edit.read().contains(id)? || self.replay && self.force && pending.is_none();
            if !is_there {
                if edit.acknowledge(group, id)? {
                    claimed.gone.push(id);
                }
                continue;
            }
            let takes = match &pending {
                Some(pending) => is_idle(self.now, pending.delivered, self.idle),
                None => self.force,
            };
            if !takes {
                continue;
            }
            let consumer = match consumer {
                Some(consumer) => consumer,
                None => {
                    let (found, made) = edit.see_consumer(group, name, self.now, true)?;
                    claimed.made_consumer |= made;
                    *consumer.insert(found)
                }
            };
            // An entry that FORCE makes pending counts as delivered before.
            let before = pending.map_or(1, |pending| pending.count);
            let count = before.saturating_add(u64::from(!self.only_ids));
            let delivery = StreamDelivery { at_ms: self.at, count: self.count.unwrap_or(count) };
            edit.deliver(group, &consumer, id, delivery)?;
            claimed.delivered.push((id, delivery));
            claimed.shown += usize::from(self.show(edit, id, out)?);
        }
        Ok(claimed)
    }

    /// Shows the entry. Returns true if there was something to show.
    fn show(
        &self,
        edit: &StreamEdit<'_, '_>,
        id: StreamId,
        out: &mut Writer,
    ) -> Result<bool, keyspace::Error> {
        if self.only_ids {
            reply::id(out, id);
            return Ok(true);
        }
        reply::entry_of(out, &edit.read(), id)
    }
}
