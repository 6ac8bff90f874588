//! Operations on a stream as a whole.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use heap::{Full, Ptr, Shard, View};
use structures::stream::{self, Consumer, Group, Id, Pending, Stream};
use structures::{Damaged, Store};

/// Takes a step of defragmenting a stream. Returns its word if that changes, and the position to
/// continue with (0: at the end). If it meets damage, the blocks already moved stay moved.
pub(crate) fn relocate<S: Store>(
    store: &mut S,
    word: u64,
    place: u64,
) -> Result<(Option<u64>, u64), Full> {
    let Ok(mut stream) = Stream::open(store, word) else { return Ok((None, 0)) };
    match stream.relocate(store, place) {
        Ok((moved, next)) => Ok((Some(moved).filter(|&moved| moved != word), next)),
        Err(stream::Error::Full(full)) => Err(full),
        Err(stream::Error::Damaged(_)) => {
            Ok((Some(stream.word()).filter(|&moved| moved != word), 0))
        }
    }
}

/// Verifies a stream of one node without groups; skips a longer one.
pub(super) fn check_short<V: View>(view: &V, word: u64) -> Result<(), Damaged> {
    let stream = Stream::open(view, word)?;
    if stream.is_long(view) { Ok(()) } else { stream.check_step(view, 0).map(drop) }
}

/// Verifies a stream that may be damaged: reads only blocks that exist, and each of them once.
pub(super) fn check<V: View>(
    view: &V,
    word: u64,
    block_capacity: &dyn Fn(Ptr) -> usize,
) -> Result<(), Damaged> {
    let (mut seen, mut first) = (HashSet::new(), Ok(()));
    Stream::salvage_walk(view, word, |found| match found {
        stream::WalkItem::Block(at, size) => seen.insert(at) && block_capacity(at) >= size,
        stream::WalkItem::Damage(damage) => {
            first = first.and(Err(damage));
            true
        }
    });
    first
}

/// Copies a stream into another shard, or the same one; returns the word of the copy. A damaged
/// stream is an error: it is not copied in part.
pub(super) fn copy(
    shards: &mut [Shard<'_>],
    from: usize,
    to: usize,
    word: u64,
) -> Result<u64, stream::Error> {
    let source = Stream::open(&shards[from], word)?;
    let mut copy = Stream::create(&mut shards[to])?;
    let (mut entries, mut last) = (0, None);
    for number in 0..source.node_count(&shards[from]) {
        let Some(node) = source.copy_node(&shards[from], number)? else { break };
        entries += node.entries();
        if last.replace(node.base()) >= Some(node.base()) {
            // If one node is reached twice, another one is not reached at all.
            let (at, [ms, found]) = (Ptr::from_raw(word), [node.base().ms, node.base().seq]);
            return Err(Damaged::new("order of a stream's nodes", at, ms, found).into());
        }
        copy.import_node(&mut shards[to], &node)?;
    }
    if entries != source.head.len {
        let at = Ptr::from_raw(word);
        return Err(Damaged::new("length of a stream", at, source.head.len, entries).into());
    }
    copy.import_header(&source);
    copy.save(&mut shards[to]);
    copy_groups(shards, from, to, &source, &copy)?;
    Ok(copy.word())
}

fn copy_groups(
    shards: &mut [Shard<'_>],
    from: usize,
    to: usize,
    source: &Stream,
    copy: &Stream,
) -> Result<(), stream::Error> {
    let mut groups: Vec<Group> = Vec::new();
    source.groups(&shards[from], |group| {
        groups.push(group);
        ControlFlow::<()>::Continue(())
    })?;
    for group in groups {
        let name = group.name(&shards[from])?;
        let new = copy.create_group(&mut shards[to], &name, group.last, group.read)?;
        let consumers = copy_consumers(shards, from, to, &group, &new)?;
        copy_pending(shards, from, to, &group, &new, &consumers)?;
    }
    Ok(())
}

/// Copies the consumers of a group; returns the copies by the place of the original.
fn copy_consumers(
    shards: &mut [Shard<'_>],
    from: usize,
    to: usize,
    group: &Group,
    copy: &Group,
) -> Result<HashMap<Ptr, Consumer>, stream::Error> {
    let mut consumers: Vec<Consumer> = Vec::new();
    group.consumers(&shards[from], |consumer| {
        consumers.push(consumer);
        ControlFlow::<()>::Continue(())
    })?;
    let mut copies = HashMap::new();
    for consumer in consumers {
        let name = consumer.name(&shards[from])?;
        let new = copy.create_consumer(&mut shards[to], &name, consumer.seen, consumer.active)?;
        copies.insert(consumer.ptr(), new);
    }
    Ok(copies)
}

/// Copies pending entries. Verifies that each ID is greater than the one before, and that in the
/// end their number is the recorded one.
fn copy_pending(
    shards: &mut [Shard<'_>],
    from: usize,
    to: usize,
    group: &Group,
    copy: &Group,
    consumers: &HashMap<Ptr, Consumer>,
) -> Result<(), stream::Error> {
    const AT_ONCE: usize = 1024;
    let expected = group.pending_count(&shards[from]);
    let (mut copied, mut next) = (0, Some(Id::MIN));
    while let Some(first) = next {
        let mut some: Vec<Pending> = Vec::new();
        group.visit_pending(&shards[from], first, |pending| {
            some.push(*pending);
            some.len() < AT_ONCE
        })?;
        if some.is_empty() {
            break;
        }
        for pending in some {
            let at = pending.consumer();
            let lost = Damaged::new("consumer of a pending entry", at, at.raw(), 0);
            let consumer = consumers.get(&at).ok_or(lost)?;
            if next.is_none_or(|least| pending.id < least) {
                return Err(Damaged::new("order of pending entries", at, copied, 0).into());
            }
            next = pending.id.next();
            let delivery = stream::Delivery { at_ms: pending.delivered, count: pending.count };
            copy.deliver(&mut shards[to], consumer, pending.id, delivery)?;
            copied += 1;
        }
    }
    if copied != expected {
        let at = group.ptr();
        return Err(Damaged::new("number of pending entries", at, expected, copied).into());
    }
    Ok(())
}
