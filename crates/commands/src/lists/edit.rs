//! LSET, LINSERT, LREM, LTRIM.

use engine::call::{Call, Run};
use engine::failure::{Done, NO_SUCH_KEY, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Side, Txn};

use super::span;

pub(crate) const LSET: CommandSpec = CommandSpec {
    name: "lset",
    summary: "Set the value of an element in a list by its index",
    complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: WRITE | DENYOOM,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    args: &[key("key", 0), integer("index"), string("element")],
    run: Run::Keys(lset),
    ..CommandSpec::EMPTY
};

fn lset(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.find_mut(db, &key)? else { return Err(NO_SUCH_KEY.into()) };
    let len = txn.list(&entry)?.len()?;
    let index = super::index(call.int(2)?, len).ok_or("ERR index out of range")?;
    let limits = call.engine.config().list_limits();
    txn.lists().set(db, &key, index, call.args[3], limits)?;
    call.wrote();
    call.notify(EventClass::List, "lset", &key);
    call.out.ok();
    Ok(())
}

pub(crate) const LINSERT: CommandSpec = CommandSpec {
    name: "linsert",
    summary: "Insert an element before or after another element in a list",
    complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
    since: "2.2.0",
    group: Group::List,
    arity: 5,
    flags: WRITE | DENYOOM,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    args: &[
        key("key", 0),
        oneof("where", &[token("before", "BEFORE"), token("after", "AFTER")]),
        string("pivot"),
        string("element"),
    ],
    weigh: Some(weights::reads_all),
    run: Run::Keys(linsert),
    ..CommandSpec::EMPTY
};

fn linsert(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let offset = match () {
        () if call.is(2, "AFTER") => 1,
        () if call.is(2, "BEFORE") => 0,
        () => return Err(SYNTAX.into()),
    };
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.find_mut(db, &key)? else {
        call.out.integer(0);
        return Ok(());
    };
    let (mut pivot, mut index) = (None, 0);
    txn.list(&entry)?.compare(0, Side::Head, call.args[3], |equal| {
        if equal {
            pivot = Some(index);
        }
        index += 1;
        !equal
    })?;
    let Some(pivot) = pivot else {
        call.out.integer(-1);
        return Ok(());
    };
    let limits = call.engine.config().list_limits();
    let len = txn.lists().insert(db, &key, pivot + offset, call.args[4], limits)?;
    call.wrote();
    call.notify(EventClass::List, "linsert", &key);
    call.out.integer(len as i64);
    Ok(())
}

pub(crate) const LREM: CommandSpec = CommandSpec {
    name: "lrem",
    summary: "Remove elements from a list",
    complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: WRITE,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), integer("count"), string("element")],
    weigh: Some(weights::reads_all),
    run: Run::Keys(lrem),
    ..CommandSpec::EMPTY
};

fn lrem(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let count = call.int(2)?;
    let (db, key) = (call.db(), call.key(0));
    let mut removed = 0;
    if let Some(entry) = txn.find_mut(db, &key)? {
        txn.list(&entry)?;
        let from = if count < 0 { Side::Tail } else { Side::Head };
        let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let limits = call.engine.config().list_limits();
        let before = txn.pending_changes();
        removed = txn.lists().remove(db, &key, from, most, call.args[3], limits)?;
        if removed == 0 {
            txn.mark_metadata_only(before);
        }
    }
    if removed > 0 {
        call.wrote();
        call.notify_taken(EventClass::List, txn, "lrem", &key);
    }
    call.out.integer(removed as i64);
    Ok(())
}

pub(crate) const LTRIM: CommandSpec = CommandSpec {
    name: "ltrim",
    summary: "Trim a list to the specified range",
    complexity: "O(N) where N is the number of elements to be removed by the operation.",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: WRITE,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), integer("start"), integer("stop")],
    weigh: Some(weights::trims),
    run: Run::Keys(ltrim),
    ..CommandSpec::EMPTY
};

fn ltrim(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (start, stop) = (call.int(2)?, call.int(3)?);
    let (db, key) = (call.db(), call.key(0));
    if let Some(entry) = txn.find_mut(db, &key)? {
        let len = txn.list(&entry)?.len()?;
        let kept = span(start, stop, len);
        if kept.end - kept.start < len {
            txn.lists().trim(db, &key, kept.start, len - kept.end)?;
            call.wrote();
        } else {
            // As in Redis, watches of the key break, and nothing is logged.
            txn.record_written(db, &key);
        }
        call.notify_taken(EventClass::List, txn, "ltrim", &key);
    }
    call.out.ok();
    Ok(())
}
