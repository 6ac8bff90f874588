//! XREADGROUP.

use std::collections::BTreeMap;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;
use keyspace::{
    Db, Key, StreamDelivery, StreamEdit, StreamGroup, StreamId, StreamPending, StreamRef, Txn, Type,
};
use resp::{Protocol, Writer};

use super::log::Place;
use super::{is_idle, no_group};
use crate::blocking::{BlockedOperation, Serving};
use crate::streams::read::{BLOCKED, Options};
use crate::streams::{id, reply};

pub(crate) const XREADGROUP: CommandSpec = CommandSpec {
    name: "xreadgroup",
    summary: "Return new entries from a stream using a consumer group, or access the history of the pending entries for a given consumer. Can block.",
    complexity: "For each stream mentioned: O(M) with M being the number of elements returned. If M is constant (e.g. always asking for the first 10 elements with COUNT), you can consider it O(1). On the other side when XREADGROUP blocks, XADD will pay the O(N) time in order to serve the N clients blocked on the stream getting new data.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -7,
    flags: BLOCKING | WRITE,
    acl: ACL_STREAM,
    history: &[("8.4.0", "Added the `CLAIM` option.")],
    keys: &[KeySpec::new(
        Begin::Keyword("STREAMS", 4),
        Find::Range { last: -1, step: 1, limit: 2 },
        KEY_RO | KEY_ACCESS,
    )],
    args: &[
        block("group_consumer", &[string("group"), string("consumer")]).token("GROUP"),
        integer("count").token("COUNT").optional(),
        integer("milliseconds").token("BLOCK").optional(),
        integer("min-idle-time").token("CLAIM").since("8.4.0").optional(),
        token("noack", "NOACK").optional(),
        block("streams", &[key("key", 0).multiple(), string("id").multiple()]).token("STREAMS"),
    ],
    run: Run::Keys(xreadgroup),
    ..CommandSpec::EMPTY
};

fn xreadgroup(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = Options::parse(call, true)?;
    let Some((group, consumer)) = options.group else {
        return Err("ERR Missing GROUP option for XREADGROUP".into());
    };
    let mut after = Vec::with_capacity(options.streams);
    for n in 0..options.streams {
        after.push(wanted(call, txn, n, group, &options)?);
    }
    let (most, no_ack, claim, now) = (options.most, options.no_ack, options.claim, call.now_ms());
    let reader = Reader { group: group.into(), consumer: consumer.into(), most, no_ack, claim };
    let mut work = 0;
    for (n, after) in after.iter().enumerate() {
        work += reader.work(txn, call.db(), &call.key(n), *after)?;
    }
    call.check_work(work)?;
    let (mark, start, mut shown) = (call.out.mark(), call.out.deferred(), 0);
    for (n, after) in after.iter().enumerate() {
        let key = call.key(n);
        let done = match after {
            None => reader.deliver(&mut call.serving(), txn, &key, now)?,
            Some(after) => reader.repeat(&mut call.serving(), txn, &key, *after, now)?,
        };
        shown += usize::from(done);
    }
    match (shown, call.out.protocol()) {
        (0, _) => {
            call.out.truncate(mark);
            let Some(until) = options.until else {
                call.out.null_array();
                return Ok(());
            };
            let most = if most == 0 { BLOCKED } else { most };
            call.block(Type::Stream, call.keys, Box::new(Reader { most, ..reader }), until);
        }
        (_, Protocol::Resp2) => call.out.finish_array(start, shown),
        _ => call.out.finish_map(start, shown),
    }
    Ok(())
}

/// Returns the ID after which the consumer wants its pending entries again; `None` if it wants new
/// ones.
fn wanted(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    n: usize,
    group: &[u8],
    options: &Options<'_>,
) -> Result<Option<StreamId>, Failure> {
    let key = call.key(n);
    let found = match txn.find_mut_to_read(call.db(), &key)? {
        Some(entry) => txn.stream(&entry)?.group(group)?,
        None => None,
    };
    if found.is_none() {
        let suffix = " in XREADGROUP with GROUP option";
        return Err(no_group(key.bytes(), group, suffix));
    }
    match call.args[options.first + options.streams + n] {
        b"$" => Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.".into()),
        b">" => Ok(None),
        word => {
            let id = id::strict(word, 0)?;
            // As in Redis, reading pending entries counts as one more read of the key.
            txn.find(call.db(), &key);
            Ok(Some(id).filter(|&id| id != StreamId::MAX))
        }
    }
}

/// A consumer of a group, and what it wants to read; also while it waits.
struct Reader {
    group: Box<[u8]>,
    consumer: Box<[u8]>,
    /// The maximum number of entries; 0 for all.
    most: u64,
    /// True if delivered entries do not become pending.
    no_ack: bool,
    /// The time in ms for which an entry must have been pending to be delivered again.
    claim: Option<u64>,
}

/// Delivered entries: the ID, when (unix ms) and how often.
type Deliveries = Vec<(StreamId, StreamDelivery)>;

/// The outcome of a delivery.
struct Delivered {
    made_consumer: bool,
    entries: Deliveries,
    group: StreamGroup,
}

impl Reader {
    /// Estimates the work at a key ([`LONG`] or more if that is much), for pending entries after an
    /// ID, or for new ones.
    fn work(
        &self,
        txn: &Txn<'_>,
        db: Db,
        key: &Key<'_>,
        after: Option<StreamId>,
    ) -> Result<u64, Failure> {
        let Some(entry) = txn.peek(db, key) else { return Ok(0) };
        let stream = txn.stream(&entry)?;
        let Some(group) = stream.group(&self.group)? else { return Ok(0) };
        let (looked_at, mut delivered) = match (after, self.claim) {
            (Some(_), _) => {
                let consumer = stream.consumer(&group, &self.consumer)?;
                (0, consumer.map_or(0, |consumer| stream.pending_count_of(&consumer)))
            }
            (None, Some(_)) => {
                let pending = stream.pending_count(&group);
                (pending, pending)
            }
            (None, None) => (0, 0),
        };
        let asked = if self.most == 0 { u64::MAX } else { self.most };
        let enough = asked.min(LONG / weights::STORED + 1);
        if let (None, Some(from)) = (after, group.last.next())
            && stream.head().len.min(enough) * weights::STORED > LONG
        {
            stream.visit(from..=StreamId::MAX, false, |_| {
                delivered += 1;
                delivered < enough
            })?;
        }
        Ok(looked_at + delivered.min(asked) * weights::STORED)
    }

    /// Delivers the entries after the group's last ID. Returns false if there are none.
    fn deliver(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
        now: u64,
    ) -> Result<bool, Failure> {
        if !self.has_any(serving, txn, key, now)? {
            return Ok(false);
        }
        let done = self
            .edit(serving, txn, key, |edit, group, out| self.deliver_new(edit, group, now, out))?;
        let Some(done) = done else { return Ok(false) };
        let place = Place { key: key.bytes(), group: &self.group };
        self.log(serving, &place, &done);
        place.read_on(serving, &done.group);
        Ok(true)
    }

    /// Delivers the consumer's pending entries after an ID again.
    fn repeat(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
        after: StreamId,
        now: u64,
    ) -> Result<bool, Failure> {
        let from = after.next().unwrap_or(StreamId::MAX);
        let done = self.edit(serving, txn, key, |edit, group, out| {
            self.deliver_again(edit, group, from, now, out)
        })?;
        if let Some(done) = done {
            self.log(serving, &Place { key: key.bytes(), group: &self.group }, &done);
        }
        Ok(true)
    }

    /// Returns true if there are entries after the group's last ID, or entries to claim. Fails if
    /// there is no group.
    fn has_any(
        &self,
        serving: &Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
        now: u64,
    ) -> Result<bool, Failure> {
        let Some(entry) = txn.find(serving.db, key) else { return Ok(false) };
        let stream = txn.stream(&entry)?;
        let Some(group) = stream.group(&self.group)? else { return Err(LOST_GROUP.into()) };
        if let Some(least) = self.claim
            && has_claimable(&stream, &group, now, least)?
        {
            return Ok(true);
        }
        let Some(from) = group.last.next() else { return Ok(false) };
        let mut any = false;
        stream.visit(from..=StreamId::MAX, false, |_| {
            any = true;
            false
        })?;
        Ok(any)
    }

    /// Changes the group, and replies with the stream's name and the delivered entries.
    fn edit(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
        change: impl FnOnce(
            &mut StreamEdit<'_, '_>,
            StreamGroup,
            &mut Writer,
        ) -> Result<Delivered, keyspace::Error>,
    ) -> Result<Option<Delivered>, Failure> {
        let out = &mut *serving.out;
        if out.protocol() == Protocol::Resp2 {
            out.array(2);
        }
        out.bulk(key.bytes());
        Ok(txn.streams().edit(serving.db, key, |edit| match edit.read().group(&self.group)? {
            Some(group) => change(edit, group, out).map(Some),
            None => Ok(None),
        })?)
    }

    fn deliver_new(
        &self,
        edit: &mut StreamEdit<'_, '_>,
        mut group: StreamGroup,
        now: u64,
        out: &mut Writer,
    ) -> Result<Delivered, keyspace::Error> {
        let (array, mut shown) = (out.deferred(), 0);
        let (mut made_consumer, mut entries) = self.deliver_claimed(edit, &group, now, out)?;
        shown += entries.len();
        if self.most == 0 || (shown as u64) < self.most {
            let most = self.most.saturating_sub(shown as u64);
            let keeps = !self.no_ack;
            let given = edit.read_group(&mut group, &self.consumer, most, keeps, now, |entry| {
                match self.claim {
                    None => reply::entry(out, entry),
                    Some(_) => reply::delivered_entry(out, entry, (0, 0)),
                }
                shown += 1;
            })?;
            made_consumer |= given.made_consumer;
            let kept = given.ids.into_iter().filter(|_| !self.no_ack);
            let first = StreamDelivery { at_ms: now, count: 1 };
            entries.extend(kept.map(|id| (id, first)));
        }
        out.finish_array(array, shown);
        Ok(Delivered { made_consumer, entries, group })
    }

    /// Delivers entries that have been pending for long, whoever has them. Returns whether the
    /// consumer was created for that, and the deliveries.
    fn deliver_claimed(
        &self,
        edit: &mut StreamEdit<'_, '_>,
        group: &StreamGroup,
        now: u64,
        out: &mut Writer,
    ) -> Result<(bool, Deliveries), keyspace::Error> {
        let Some(least) = self.claim else { return Ok((false, Deliveries::new())) };
        let found = claimable(&edit.read(), group, now, least, self.most)?;
        if found.is_empty() {
            return Ok((false, Deliveries::new()));
        }
        let (consumer, made_consumer) = edit.see_consumer(group, &self.consumer, now, true)?;
        let mut entries = Vec::new();
        for pending in found {
            let before = (now.saturating_sub(pending.delivered), pending.count);
            edit.read().visit(pending.id..=pending.id, false, |entry| {
                reply::delivered_entry(out, entry, before);
                false
            })?;
            let delivery = StreamDelivery { at_ms: now, count: pending.count.saturating_add(1) };
            edit.deliver(group, &consumer, pending.id, delivery)?;
            entries.push((pending.id, delivery));
        }
        Ok((made_consumer, entries))
    }

    fn deliver_again(
        &self,
        edit: &mut StreamEdit<'_, '_>,
        group: StreamGroup,
        from: StreamId,
        now: u64,
        out: &mut Writer,
    ) -> Result<Delivered, keyspace::Error> {
        let (consumer, made_consumer) = edit.see_consumer(&group, &self.consumer, now, false)?;
        let mut all: Vec<StreamPending> = Vec::new();
        edit.read().visit_pending(&group, Some(&consumer), from, |pending| {
            all.push(*pending);
            all.len() as u64 != self.most
        })?;
        out.array(all.len());
        let mut entries = Vec::new();
        for pending in all {
            if reply::entry_of(out, &edit.read(), pending.id)? {
                let delivery =
                    StreamDelivery { at_ms: now, count: pending.count.saturating_add(1) };
                edit.deliver(&group, &consumer, pending.id, delivery)?;
                entries.push((pending.id, delivery));
            } else {
                // Pending, but no longer in the stream.
                out.array(2);
                reply::id(out, pending.id);
                out.null_array();
            }
        }
        Ok(Delivered { made_consumer, entries, group })
    }

    fn log(&self, serving: &mut Serving<'_>, place: &Place<'_>, done: &Delivered) {
        if done.made_consumer {
            place.made_consumer(serving, &self.consumer);
        }
        for (id, delivery) in &done.entries {
            place.delivered(serving, &self.consumer, *id, *delivery, done.group.last);
        }
    }
}

/// Returns true if an entry of the stream has been pending in the group for at least this long.
fn has_claimable(
    stream: &StreamRef<'_>,
    group: &StreamGroup,
    now: u64,
    least: u64,
) -> Result<bool, keyspace::Error> {
    let mut found = Ok(false);
    visit_idle(stream, group, now, least, |pending| {
        found = stream.contains(pending.id);
        matches!(found, Ok(false))
    })?;
    found
}

/// Returns the entries of the stream that have been pending in the group for at least this long:
/// the longest first, up to `most`; 0 for all.
fn claimable(
    stream: &StreamRef<'_>,
    group: &StreamGroup,
    now: u64,
    least: u64,
    most: u64,
) -> Result<Vec<StreamPending>, keyspace::Error> {
    let (mut oldest, mut failed) = (BTreeMap::new(), None);
    visit_idle(stream, group, now, least, |pending| {
        let age = (pending.delivered, pending.id);
        let is_full = most > 0 && oldest.len() as u64 == most;
        if is_full && oldest.last_key_value().is_some_and(|(latest, _)| *latest < age) {
            return true;
        }
        match stream.contains(pending.id) {
            Ok(true) if is_full => drop((oldest.pop_last(), oldest.insert(age, *pending))),
            Ok(true) => drop(oldest.insert(age, *pending)),
            Ok(false) => {}
            Err(error) => failed = Some(error),
        }
        failed.is_none()
    })?;
    failed.map_or(Ok(oldest.into_values().collect()), Err)
}

/// Passes the entries that have been pending in a group for at least this long (ms) to `visit`, by
/// ID, until that returns false.
fn visit_idle(
    stream: &StreamRef<'_>,
    group: &StreamGroup,
    now: u64,
    least: u64,
    mut visit: impl FnMut(&StreamPending) -> bool,
) -> Result<(), keyspace::Error> {
    stream.visit_pending(group, None, StreamId::MIN, |pending| {
        !is_idle(now, pending.delivered, least) || visit(pending)
    })
}

/// The error if the group was deleted while a client waited for its entries.
const LOST_GROUP: &str = "NOGROUP the consumer group this client was blocked on no longer exists";

impl BlockedOperation for Reader {
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        let (mark, start) = (serving.out.mark(), serving.out.deferred());
        let now = txn.now();
        let any = self.deliver(serving, txn, key, now)?;
        match serving.out.protocol() {
            _ if !any => serving.out.truncate(mark),
            Protocol::Resp2 => serving.out.finish_array(start, 1),
            _ => serving.out.finish_map(start, 1),
        }
        Ok(any)
    }

    fn lost(&self) -> Option<Failure> {
        Some("UNBLOCKED the stream key no longer exists".into())
    }
}
