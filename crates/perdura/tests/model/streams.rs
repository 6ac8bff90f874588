//! Streams and their consumer groups.

use std::ops::Bound;
use std::time::Duration;

use perdura::{Error, Operations, PendingEntry, StreamEntry, StreamId};

use super::collections::many;
use super::draw::{Draw, is_in, take_all};
use super::state::{Bytes, Checked, Db, Group, Pending, Stream, same, up_to};
use super::strings::call;

const GROUPS: [&str; 3] = ["", "g", "other"];
const CONSUMERS: [&str; 3] = ["", "ann", "ben"];

fn before(id: StreamId) -> StreamId {
    match (id.ms, id.seq) {
        (ms, 0) => StreamId { ms: ms.saturating_sub(1), seq: u64::MAX },
        (ms, seq) => StreamId { ms, seq: seq - 1 },
    }
}

/// Draws an ID at, before or after an existing one; or an end.
fn an_id(draw: &mut Draw, held: &Stream) -> StreamId {
    let n = held.entries.len();
    if n == 0 || draw.one_in(6) {
        return draw.of(&[StreamId::MIN, StreamId::MAX, held.last]);
    }
    // Often the first one of a millisecond, or the last one of all.
    let firsts: Vec<StreamId> = held.entries.keys().copied().filter(|id| id.seq == 0).collect();
    let id = match draw.below(6) {
        0 | 1 if !firsts.is_empty() => draw.of(&firsts),
        2 => *held.entries.keys().next_back().expect("an entry"),
        _ => *held.entries.keys().nth(draw.below(n)).expect("an entry"),
    };
    match draw.below(8) {
        6 => StreamId { ms: id.ms + 1, seq: 0 },
        7 => StreamId { ms: id.ms, seq: u64::MAX },
        0 => before(id),
        1 => id.next().unwrap_or(id),
        2 => StreamId { seq: 0, ..id },
        _ => id,
    }
}

fn append<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let now = db.now;
    // Mostly several in a millisecond.
    for _ in 0..many(draw).max(draw.below(4)) {
        let count = draw.of(&[0, 1, 1, 1, 2, 2, 7]);
        let fields: Vec<(Bytes, Bytes)> =
            (0..count).map(|_| (draw.element(), draw.bytes())).collect();
        let text = call(draw, "append_entry", key, &format!("{count} fields"));
        let want = match db.stream(key) {
            Err(error) => Err(error),
            Ok(_) if fields.is_empty() => Ok(None),
            Ok(_) => {
                let stream = db.stream_mut(key).expect("a stream");
                let own = StreamId { ms: now, seq: 0 };
                let id = if own > stream.last { own } else { stream.last.next().expect("an ID") };
                stream.entries.insert(id, fields.clone());
                stream.last = id;
                Ok(Some(id))
            }
        };
        same(&text, on.append_entry(key, fields), want)?;
        // The next ID is not that of an entry that is gone, even if it was the first one.
        if draw.one_in(12) {
            let text = call(draw, "trim_stream", key, "0");
            let want = held(db, key).map(|of| of.entries.len() as u64);
            if matches!(want, Ok(1..)) {
                db.stream_mut(key).expect("a stream").entries.clear();
            }
            same(&text, on.trim_stream(key, 0), want)?;
        }
    }
    Ok(())
}

fn held(db: &Db, key: &[u8]) -> Result<Stream, Error> {
    db.stream(key).map(|stream| stream.cloned().unwrap_or_default())
}

fn entry((id, fields): (&StreamId, &Vec<(Bytes, Bytes)>)) -> StreamEntry {
    StreamEntry { id: *id, fields: fields.clone() }
}

fn iterate<S: Operations>(on: &S, db: &Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let held = held(db, key);
    let of = held.clone().unwrap_or_default();
    let ids = (draw.bound(|draw| an_id(draw, &of)), draw.bound(|draw| an_id(draw, &of)));
    if draw.one_in(3) {
        let (first, last) = (an_id(draw, &of), an_id(draw, &of));
        let count = draw.of(&[0, 1, 3, 1000]);
        let text = call(draw, "entries", key, &format!("{first:?}..={last:?}, {count}"));
        let ids = (Bound::Included(first), Bound::Included(last));
        let want = held.map(|of| {
            of.entries.iter().filter(|(id, _)| is_in(*id, &ids)).map(entry).take(count).collect()
        });
        return same(&text, on.entries(key, first..=last, count), up_to(count, want));
    }
    let text = call(draw, "stream_iter", key, &format!("{ids:?}"));
    match (take_all(draw, on.stream_iter(key, ids)), held) {
        (Ok(taken), Ok(of)) => {
            let want: Vec<_> =
                of.entries.iter().filter(|(id, _)| is_in(*id, &ids)).map(entry).collect();
            taken.check(&text, &want)
        }
        // An iterator over no ID does not access the store.
        (Ok(_), Err(_)) => Ok(()),
        (taken, want) => same(&text, taken.map(drop), want.map(drop)),
    }
}

fn remove<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    if draw.rng.bool() {
        // Let the deleted entries be of this millisecond.
        append(on, db, draw, key)?;
    }
    let held = held(db, key);
    if draw.below(3) > 0 {
        let id = an_id(draw, &held.clone().unwrap_or_default());
        let text = call(draw, "delete_entry", key, &format!("{id:?}"));
        let want = held.map(|of| of.entries.contains_key(&id));
        if want == Ok(true) {
            db.stream_mut(key).expect("a stream").entries.remove(&id);
        }
        same(&text, on.delete_entry(key, id), want)?;
        // No ID is used twice, not even that of the last entry.
        return if draw.rng.bool() { append(on, db, draw, key) } else { Ok(()) };
    }
    let len = held.as_ref().map_or(0, |of| of.entries.len()) as u64;
    let most = draw.of(&[0, 1, len.saturating_sub(1), len, len + 1, len / 2]);
    let text = call(draw, "trim_stream", key, &format!("{most} of {len}"));
    let want = held.map(|_| len.saturating_sub(most));
    for _ in 0..want.unwrap_or(0) {
        db.stream_mut(key).expect("a stream").entries.pop_first();
    }
    same(&text, on.trim_stream(key, most), want)?;
    // No ID is used twice, even if the stream is empty.
    if most == 0 { append(on, db, draw, key) } else { Ok(()) }
}

/// Runs one of the operations on streams.
pub(crate) fn step<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'x');
    match draw.below(10) {
        0..5 => append(on, db, draw, &key),
        5 => {
            let text = call(draw, "stream_len", &key, "");
            same(&text, on.stream_len(&key), held(db, &key).map(|of| of.entries.len() as u64))
        }
        6..9 => (0..4).try_for_each(|_| iterate(on, db, draw, &key)),
        _ => remove(on, db, draw, &key),
    }
}

/// Draws the name of a group, mostly of an existing one.
fn a_group(draw: &mut Draw, db: &Db, key: &[u8]) -> &'static str {
    let held = held(db, key).unwrap_or_default();
    let known: Vec<&'static str> =
        GROUPS.into_iter().filter(|name| held.groups.contains_key(name.as_bytes())).collect();
    if known.is_empty() || draw.one_in(4) { draw.of(&GROUPS) } else { draw.of(&known) }
}

/// Returns the group of a stream, to be changed.
fn group<'d>(db: &'d mut Db, key: &[u8], name: &str) -> Result<Option<&'d mut Group>, Error> {
    if db.stream(key)?.is_none() {
        return Ok(None);
    }
    Ok(db.stream_mut(key)?.groups.get_mut(name.as_bytes()))
}

fn create_or_destroy<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (name, held) = (draw.of(&GROUPS), held(db, key));
    if draw.one_in(5) {
        let text = call(draw, "destroy_group", key, name);
        let was = held.map(|of| of.groups.contains_key(name.as_bytes()));
        if was == Ok(true) {
            db.stream_mut(key).expect("a stream").groups.remove(name.as_bytes());
        }
        return same(&text, on.destroy_group(key, name), was);
    }
    let last = if draw.rng.bool() {
        StreamId::MIN
    } else {
        an_id(draw, &held.clone().unwrap_or_default())
    };
    let text = call(draw, "create_group", key, &format!("{name:?}, {last:?}"));
    let is_new = held.map(|of| !of.groups.contains_key(name.as_bytes()));
    if is_new == Ok(true) {
        let group = Group { last, ..Group::default() };
        db.stream_mut(key).expect("a stream").groups.insert(name.into(), group);
    }
    same(&text, on.create_group(key, name, last), is_new)
}

fn read_group<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (name, consumer) = (a_group(draw, db, key), draw.of(&CONSUMERS));
    let count = draw.of(&[0, 1, 2, 5, 63, 64, 65, 1000]);
    let text = call(draw, "read_group", key, &format!("{name:?}, {consumer:?}, {count}"));
    let (now, held) = (db.now, held(db, key));
    let want = match group(db, key, name) {
        Err(error) => Err(error),
        Ok(None) => Ok(None),
        Ok(Some(group)) => {
            let of = held.expect("a stream");
            let new = of.entries.iter().filter(|(id, _)| **id > group.last);
            let new: Vec<StreamEntry> = new.take(count).map(entry).collect();
            for entry in &new {
                group.last = entry.id;
                let pending = Pending { consumer: consumer.into(), delivered: now, count: 1 };
                group.pending.insert(entry.id, pending);
            }
            Ok(Some(new))
        }
    };
    same(&text, on.read_group(key, name, consumer, count), want)
}

fn reported((id, pending): (&StreamId, &Pending)) -> PendingEntry {
    let Pending { consumer, delivered, count } = pending.clone();
    PendingEntry { id: *id, consumer, delivered, count }
}

fn pending<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let name = a_group(draw, db, key);
    let all = group(db, key, name).map(|group| {
        group.map_or(Vec::new(), |group| group.pending.iter().map(reported).collect())
    });
    if draw.rng.bool() {
        let text = call(draw, "pending_iter", key, name);
        let found: Result<Vec<_>, Error> = on.pending_iter(key, name).collect();
        return same(&text, found, all);
    }
    let count = draw.of(&[0, 1, 2, 64, 1000]);
    let text = call(draw, "pending", key, &format!("{name:?}, {count}"));
    let want = all.map(|all| all.into_iter().take(count).collect());
    same(&text, on.pending(key, name, count), up_to(count, want))
}

fn acknowledge<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (name, of) = (a_group(draw, db, key), held(db, key).unwrap_or_default());
    let mut ids: Vec<StreamId> = (0..draw.below(4)).map(|_| an_id(draw, &of)).collect();
    if let Some(group) = of.groups.get(name.as_bytes()) {
        ids.extend(group.pending.keys().filter(|_| draw.one_in(4)));
    }
    let text = call(draw, "acknowledge", key, &format!("{name:?}, {} IDs", ids.len()));
    let want = group(db, key, name).map(|group| {
        let Some(group) = group else { return 0 };
        ids.iter().filter(|id| group.pending.remove(id).is_some()).count() as u64
    });
    same(&text, on.acknowledge(key, name, ids.clone()), want)
}

fn claim<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (name, consumer) = (a_group(draw, db, key), draw.of(&CONSUMERS));
    let (now, held) = (db.now, held(db, key));
    let mut idle = draw.of(&[0, 1, 2, 5, 1000, u64::MAX]);
    if let Some(group) = held.as_ref().ok().and_then(|of| of.groups.get(name.as_bytes()))
        && let Some((_, pending)) = group.pending.iter().nth(draw.below(group.pending.len() + 1))
    {
        // At, just below and just above the idle time of one of them.
        idle = (now - pending.delivered + draw.below(3) as u64).saturating_sub(1);
    }
    let count = draw.of(&[0, 1, 2, 64, 1000]);
    let text = call(draw, "claim", key, &format!("{name:?}, {consumer:?}, {idle} ms, {count}"));
    let want = match group(db, key, name) {
        Err(error) => Err(error),
        Ok(None) => Ok(None),
        Ok(Some(group)) => {
            let (of, mut entries) = (held.expect("a stream"), Vec::new());
            let due = group.pending.iter().filter(|(_, p)| p.delivered <= now.saturating_sub(idle));
            let due: Vec<StreamId> = due.map(|(id, _)| *id).take(count).collect();
            for id in due {
                let Some(fields) = of.entries.get(&id) else {
                    group.pending.remove(&id);
                    continue;
                };
                let pending = group.pending.get_mut(&id).expect("a pending entry");
                let count = pending.count + 1;
                *pending = Pending { consumer: consumer.into(), delivered: now, count };
                entries.push(entry((&id, fields)));
            }
            Ok(Some(entries))
        }
    };
    let claimed = on.claim(key, name, consumer, Duration::from_millis(idle), count);
    same(&text, claimed, want)
}

/// Deletes an entry that is pending.
fn delete_pending<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let held = held(db, key).unwrap_or_default();
    let pending = held.groups.values().flat_map(|group| group.pending.keys());
    let there: Vec<StreamId> =
        pending.copied().filter(|id| held.entries.contains_key(id)).collect();
    if there.is_empty() {
        return Ok(());
    }
    let id = draw.of(&there);
    let text = call(draw, "delete_entry", key, &format!("{id:?}, pending"));
    db.stream_mut(key).expect("a stream").entries.remove(&id);
    same(&text, on.delete_entry(key, id), Ok(true))
}

/// Runs one of the operations on consumer groups.
pub(crate) fn groups<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let mut key = draw.key(b'x');
    // Mostly a stream that has groups.
    let has_groups =
        |key: &&Bytes| db.stream(key).is_ok_and(|of| of.is_some_and(|of| !of.groups.is_empty()));
    let with_groups: Vec<&Bytes> = db.keys.keys().filter(has_groups).collect();
    if !with_groups.is_empty() && draw.below(4) > 0 {
        key = with_groups[draw.below(with_groups.len())].clone();
    }
    match draw.below(12) {
        10 | 11 => delete_pending(on, db, draw, &key).and_then(|()| claim(on, db, draw, &key)),
        0 | 1 => create_or_destroy(on, db, draw, &key),
        2 => append(on, db, draw, &key).and_then(|()| read_group(on, db, draw, &key)),
        3 | 4 => read_group(on, db, draw, &key),
        5 | 6 => pending(on, db, draw, &key),
        7 => acknowledge(on, db, draw, &key),
        _ => claim(on, db, draw, &key),
    }
}
