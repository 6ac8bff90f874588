//! XSETID.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NO_SUCH_KEY, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{StreamId, Txn};

use super::{id, stream_mut};

pub(crate) const XSETID: CommandSpec = CommandSpec {
    name: "xsetid",
    summary: "An internal command for replicating stream values",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: -3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("7.0.0", "Added the `entries_added` and `max_deleted_entry_id` arguments.")],
    args: &[
        key("key", 0),
        string("last-id"),
        integer("entries_added").token("ENTRIESADDED").since("7.0.0").optional(),
        string("max_deleted_entry_id").token("MAXDELETEDID").since("7.0.0").optional(),
    ],
    run: Run::Keys(xsetid),
    ..CommandSpec::EMPTY
};

fn xsetid(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let last = id::strict(call.args[2], 0)?;
    let (added, deleted) = options(call, last)?;
    let Some(stream) = stream_mut(call, txn)? else { return Err(NO_SUCH_KEY.into()) };
    let head = stream.head();
    let mut top = None;
    stream.visit(StreamId::MIN..=StreamId::MAX, true, |entry| {
        top = Some(entry.id());
        false
    })?;
    if top.is_some_and(|top| last < top) {
        return Err(
            "ERR The ID specified in XSETID is smaller than the target stream top item".into()
        );
    }
    if added.is_some_and(|added| head.len > added) {
        return Err(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
                .into(),
        );
    }
    let deleted = deleted.filter(|&id| id != StreamId::MIN);
    txn.streams().edit(call.db(), &call.key(0), |edit| {
        edit.set_last(last, added, deleted);
        Ok(())
    })?;
    call.wrote();
    call.notify(EventClass::Stream, "xsetid", &call.key(0));
    call.out.ok();
    Ok(())
}

/// Parses the number of entries ever added, and the highest ID ever deleted.
fn options(call: &Call<'_>, last: StreamId) -> Result<(Option<u64>, Option<StreamId>), Failure> {
    let (mut added, mut deleted, mut at) = (None, None, 3);
    while at < call.args.len() {
        if at + 1 == call.args.len() {
            return Err(SYNTAX.into());
        } else if call.is(at, "ENTRIESADDED") {
            let count = u64::try_from(call.int(at + 1)?);
            added = Some(count.map_err(|_| "ERR entries_added must be positive")?);
        } else if call.is(at, "MAXDELETEDID") {
            let id = id::strict(call.args[at + 1], 0)?;
            if last < id {
                return Err("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id".into());
            }
            deleted = Some(id);
        } else {
            return Err(SYNTAX.into());
        }
        at += 2;
    }
    Ok((added, deleted))
}
