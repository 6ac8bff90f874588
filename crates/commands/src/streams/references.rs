//! XDELEX, XACKDEL of Redis 8.2: delete entries, and choose what happens to the references that
//! consumer groups have to them. XADD and XTRIM take the same three words.
//!
//! The commands are logged by their results: an XDEL of the deleted entries, and for each group an
//! XACK of the entries that are no longer pending.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::StreamBound;
use keyspace::{StreamEdit, StreamGroup, StreamId, StreamTrim, Txn};

use super::{id, reply, stream_mut};

/// What happens to the references to deleted entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum References {
    /// Groups keep them, as with plain XDEL and XTRIM.
    #[default]
    Keep,
    /// Groups lose them.
    Delete,
    /// Only unreferenced entries are deleted: those that each group has read and acknowledged.
    Acked,
}

impl References {
    /// Returns the option of this name.
    pub(super) fn named(word: &[u8]) -> Option<References> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("KEEPREF") => Some(References::Keep),
            () if is("DELREF") => Some(References::Delete),
            () if is("ACKED") => Some(References::Acked),
            () => None,
        }
    }
}

pub(super) const STRATEGY: Arg = oneof(
    "condition",
    &[token("keepref", "KEEPREF"), token("delref", "DELREF"), token("acked", "ACKED")],
)
.optional();

const IDS: Arg = block("ids", &[integer("numids"), string("id").multiple()]).token("IDS");

pub(crate) const XDELEX: CommandSpec = CommandSpec {
    name: "xdelex",
    summary: "Deletes one or multiple entries from the stream.",
    complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
    since: "8.2.0",
    group: Group::Stream,
    arity: -5,
    flags: WRITE | FAST,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), STRATEGY, IDS],
    run: Run::Keys(xdelex),
    ..CommandSpec::EMPTY
};

pub(crate) const XACKDEL: CommandSpec = CommandSpec {
    name: "xackdel",
    summary: "Acknowledges and deletes one or multiple messages for a stream consumer group.",
    complexity: "O(1) for each message ID processed.",
    since: "8.2.0",
    group: Group::Stream,
    arity: -6,
    flags: WRITE | FAST,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE | KEY_DELETE)],
    args: &[key("key", 0), string("group"), STRATEGY, IDS],
    run: Run::Keys(xackdel),
    ..CommandSpec::EMPTY
};

/// Replies for an ID: unknown; deleted; still referenced.
const UNKNOWN: i64 = -1;
const DELETED: i64 = 1;
const REFERENCED: i64 = 2;

/// The number of entries that a trim with ACKED visits for each that it may delete, if it has a
/// limit.
const VISITED: u64 = 4;

/// Groups with their names.
type Groups = Vec<(Vec<u8>, StreamGroup)>;

/// The entries and references that were deleted.
#[derive(Default)]
pub(super) struct Gone {
    /// Entries.
    entries: Vec<StreamId>,
    /// References, by the index of their group.
    references: Vec<(usize, StreamId)>,
}

impl Gone {
    /// Deletes an entry. Returns true if it existed.
    fn delete(
        &mut self,
        edit: &mut StreamEdit<'_, '_>,
        id: StreamId,
    ) -> Result<bool, keyspace::Error> {
        let was_there = edit.delete(&[id])? > 0;
        if was_there {
            self.entries.push(id);
        }
        Ok(was_there)
    }

    /// Removes the reference of a group. Returns true if it had one.
    fn acknowledge(
        &mut self,
        edit: &mut StreamEdit<'_, '_>,
        groups: &Groups,
        number: usize,
        id: StreamId,
    ) -> Result<bool, keyspace::Error> {
        let had = edit.acknowledge(&groups[number].1, id)?;
        if had {
            self.references.push((number, id));
        }
        Ok(had)
    }

    /// Removes the references of all groups.
    fn acknowledge_all(
        &mut self,
        edit: &mut StreamEdit<'_, '_>,
        groups: &Groups,
        id: StreamId,
    ) -> Result<(), keyspace::Error> {
        (0..groups.len())
            .try_for_each(|number| self.acknowledge(edit, groups, number, id).map(|_| ()))
    }

    /// Deletes an entry, as far as its references allow, and returns the reply for it.
    fn take_out(
        &mut self,
        edit: &mut StreamEdit<'_, '_>,
        groups: &Groups,
        references: References,
        id: StreamId,
    ) -> Result<i64, keyspace::Error> {
        let is_kept = references == References::Acked && is_referenced(edit, groups, id)?;
        if is_kept && edit.read().contains(id)? {
            return Ok(REFERENCED);
        }
        let was_there = self.delete(edit, id)?;
        if references == References::Delete {
            self.acknowledge_all(edit, groups, id)?;
        }
        Ok(if was_there { DELETED } else { UNKNOWN })
    }

    /// Logs the changes, and sends the event of the key.
    fn say(&self, call: &mut Call<'_>, groups: &Groups, event: Option<&'static str>) {
        let key = call.key(0);
        if !self.entries.is_empty() {
            let words: &[&[u8]] = &[b"XDEL", key.bytes()];
            log(call, words, self.entries.iter().copied());
            if let Some(event) = event {
                call.notify(EventClass::Stream, event, &key);
            }
        }
        self.log_references(call, groups);
    }

    /// Logs the entries that are no longer pending in groups.
    pub(super) fn log_references(&self, call: &mut Call<'_>, groups: &Groups) {
        let key = call.key(0);
        for (number, (name, _)) in groups.iter().enumerate() {
            let ids = self.references.iter().filter(|(of, _)| *of == number).map(|(_, id)| *id);
            log(call, &[b"XACK", key.bytes(), name], ids);
        }
    }
}

fn log(call: &mut Call<'_>, words: &[&[u8]], ids: impl Iterator<Item = StreamId>) {
    let mut ids = ids.peekable();
    if ids.peek().is_none() {
        return;
    }
    if !call.effects.enabled() {
        return call.wrote_as(&[]);
    }
    let ids: Vec<String> = ids.map(reply::text).collect();
    let words = words.iter().copied().chain(ids.iter().map(String::as_bytes));
    call.wrote_as(&words.collect::<Vec<_>>());
}

/// Returns true if a group has not read the entry yet, or has it pending.
fn is_referenced(
    edit: &StreamEdit<'_, '_>,
    groups: &Groups,
    id: StreamId,
) -> Result<bool, keyspace::Error> {
    let stream = edit.read();
    for (_, group) in groups {
        if group.last < id || stream.pending(group, id)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Parses the strategy and the IDs, which begin at this argument.
fn parse(call: &Call<'_>, from: usize) -> Result<(References, Vec<StreamId>), Failure> {
    let (mut references, mut ids, mut at) = (None, None, from);
    while at < call.args.len() {
        if let (None, Some(named)) = (references, References::named(call.args[at])) {
            references = Some(named);
            at += 1;
        } else if ids.is_none() && call.is(at, "IDS") && at + 1 < call.args.len() {
            let number = call.int(at + 1).ok().filter(|n| (1..=i64::from(i32::MAX)).contains(n));
            let number = number.ok_or("ERR Number of IDs must be a positive integer")? as usize;
            let words = call.args[at + 2..].get(..number);
            let words =
                words.ok_or("ERR The `numids` parameter must match the number of arguments")?;
            let parsed = words.iter().map(|word| id::strict(word, 0));
            ids = Some(parsed.collect::<Result<Vec<_>, _>>()?);
            at += 2 + number;
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok((references.unwrap_or_default(), ids.ok_or(SYNTAX)?))
}

fn xdelex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (references, ids) = parse(call, 2)?;
    if stream_mut(call, txn)?.is_none() {
        return unknown(call, ids.len());
    }
    let (mut gone, mut groups, mut answers) = (Gone::default(), Groups::new(), Vec::new());
    txn.streams().edit(call.db(), &call.key(0), |edit| {
        if references != References::Keep {
            groups = edit.read().groups()?;
        }
        for id in &ids {
            answers.push(gone.take_out(edit, &groups, references, *id)?);
        }
        Ok(())
    })?;
    gone.say(call, &groups, Some("xdel"));
    answer(call, &answers)
}

fn xackdel(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (references, ids) = parse(call, 3)?;
    let name = call.args[2];
    let group = match stream_mut(call, txn)? {
        Some(stream) => stream.group(name)?,
        None => None,
    };
    if group.is_none() {
        return unknown(call, ids.len());
    }
    let (mut gone, mut groups, mut answers) = (Gone::default(), Groups::new(), Vec::new());
    txn.streams().edit(call.db(), &call.key(0), |edit| {
        groups = edit.read().groups()?;
        let own = groups.iter().position(|(other, _)| other == name);
        for id in &ids {
            let was_pending = match own {
                Some(own) => gone.acknowledge(edit, &groups, own, *id)?,
                None => false,
            };
            answers.push(if !was_pending {
                UNKNOWN
            } else if gone.take_out(edit, &groups, references, *id)? == REFERENCED {
                REFERENCED
            } else {
                // Also if the entry had been deleted before.
                DELETED
            });
        }
        Ok(())
    })?;
    gone.say(call, &groups, Some("xdel"));
    answer(call, &answers)
}

fn unknown(call: &mut Call<'_>, ids: usize) -> Done {
    answer(call, &vec![UNKNOWN; ids])
}

fn answer(call: &mut Call<'_>, answers: &[i64]) -> Done {
    call.out.array(answers.len());
    answers.iter().for_each(|answer| call.out.integer(*answer));
    Ok(())
}

/// A trim that respects references.
#[derive(Default)]
pub(super) struct Trimmed {
    /// The number of deleted entries.
    pub(super) count: u64,
    /// True if they were deleted one by one.
    is_selective: bool,
    gone: Gone,
    groups: Groups,
}

impl Trimmed {
    /// Trims a stream.
    pub(super) fn of(
        edit: &mut StreamEdit<'_, '_>,
        trim: StreamTrim,
        references: References,
    ) -> Result<Trimmed, keyspace::Error> {
        let mut done = Trimmed::default();
        if references != References::Keep {
            done.groups = edit.read().groups()?;
        }
        match references {
            References::Delete if !done.groups.is_empty() => {
                done.count = edit.trim(trim)?;
                done.delete_old_references(edit, trim)?;
            }
            References::Acked if !done.groups.is_empty() => done.trim_acked(edit, trim)?,
            _ => done.count = edit.trim(trim)?,
        }
        Ok(done)
    }

    /// Removes the references to all entries before the first one left: those that the trim
    /// deleted, and those deleted before whose references stayed. If the trim deleted nothing, this
    /// applies up to its ID, unless that is approximate.
    fn delete_old_references(
        &mut self,
        edit: &mut StreamEdit<'_, '_>,
        trim: StreamTrim,
    ) -> Result<(), keyspace::Error> {
        let least = match trim.bound {
            StreamBound::Id(least) if !trim.whole_nodes => Some(least),
            _ if self.count == 0 => return Ok(()),
            _ => None,
        };
        // `None` if no entry is left.
        let end = edit.read().first_id()?.into_iter().chain(least).min();
        let mut old = Vec::new();
        for (number, (_, group)) in self.groups.iter().enumerate() {
            edit.read().visit_pending(group, None, StreamId::MIN, |pending| {
                let is_old = end.is_none_or(|end| pending.id < end);
                if is_old {
                    old.push((number, pending.id));
                }
                is_old
            })?;
        }
        for (number, id) in old {
            self.gone.acknowledge(edit, &self.groups, number, id)?;
        }
        Ok(())
    }

    /// Deletes the oldest unreferenced entries, until the wanted number is left, or no more are
    /// unreferenced.
    fn trim_acked(
        &mut self,
        edit: &mut StreamEdit<'_, '_>,
        trim: StreamTrim,
    ) -> Result<(), keyspace::Error> {
        self.is_selective = true;
        // Entries that some group has not read are all referenced.
        let read_by_all = self.groups.iter().map(|(_, group)| group.last).min();
        let mut wanted = match trim.bound {
            StreamBound::Len(len) => edit.head().len.saturating_sub(len),
            StreamBound::Id(_) => u64::MAX,
        };
        if trim.most > 0 {
            wanted = wanted.min(trim.most);
        }
        // With ~ some may be left, and visiting referenced entries costs time too.
        let most = if trim.whole_nodes && trim.most > 0 { trim.most } else { u64::MAX };
        let mut to_visit = most.saturating_mul(VISITED);
        let (mut free, mut failed) = (Vec::new(), None);
        let stream = edit.read();
        stream.visit(StreamId::MIN..=read_by_all.unwrap_or(StreamId::MAX), false, |entry| {
            let id = entry.id();
            let is_old = !matches!(trim.bound, StreamBound::Id(least) if id >= least);
            if free.len() as u64 >= wanted || to_visit == 0 || !is_old {
                return false;
            }
            to_visit -= 1;
            match is_referenced(edit, &self.groups, id) {
                Ok(true) => {}
                Ok(false) => free.push(id),
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.count = edit.delete(&free)?;
        self.gone.entries = free;
        Ok(())
    }

    /// Returns true if the trim itself must be logged: no entries were deleted one by one.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_selective
    }

    /// Logs the references that groups lost, and the entries that were deleted one by one.
    pub(super) fn log(&self, call: &mut Call<'_>) {
        self.gone.say(call, &self.groups, None);
    }
}
