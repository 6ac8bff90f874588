//! RENAME, RENAMENX, MOVE, COPY: give a value another name or database.

use engine::call::{Call, Run};
use engine::failure::{DB_OUT_OF_RANGE, Done, Failure, NO_SUCH_KEY, SAME_OBJECT, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Db, Key, Txn};

pub(crate) const RENAME: CommandSpec = CommandSpec {
    name: "rename",
    summary: "Rename a key",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: WRITE,
    acl: ACL_KEYSPACE,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_OW | KEY_UPDATE),
    ],
    args: &[key("key", 0), key("newkey", 1)],
    weigh: Some(weights::renames),
    run: Run::Keys(rename),
    ..CommandSpec::EMPTY
};

pub(crate) const RENAMENX: CommandSpec = CommandSpec {
    name: "renamenx",
    summary: "Rename a key, only if the new key does not exist",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_OW | KEY_INSERT),
    ],
    history: &[(
        "3.2.0",
        "The command no longer returns an error when source and destination names are the same.",
    )],
    args: &[key("key", 0), key("newkey", 1)],
    weigh: Some(weights::renames),
    run: Run::Keys(renamenx),
    ..CommandSpec::EMPTY
};

fn rename(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    rename_generic(call, txn, false)?;
    call.out.ok();
    Ok(())
}

fn renamenx(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let done = rename_generic(call, txn, true)?;
    call.out.integer(i64::from(done));
    Ok(())
}

/// Returns true if the key was renamed.
fn rename_generic(call: &mut Call<'_>, txn: &mut Txn<'_>, only_new: bool) -> Result<bool, Failure> {
    let (db, from, to) = (call.db(), call.key(0), call.key(1));
    if txn.find_mut(db, &from)?.is_none() {
        return Err(NO_SUCH_KEY.into());
    }
    if from.bytes() == to.bytes() || (only_new && txn.find_mut(db, &to)?.is_some()) {
        return Ok(false);
    }
    txn.keys().rename((db, &from), (db, &to))?;
    call.wrote();
    call.notify(EventClass::Generic, "rename_from", &from);
    call.notify(EventClass::Generic, "rename_to", &to);
    Ok(true)
}

pub(crate) const MOVE: CommandSpec = CommandSpec {
    name: "move",
    summary: "Move a key to another database",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), integer("db")],
    run: Run::Keys(move_key),
    ..CommandSpec::EMPTY
};

fn move_key(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.engine.cluster().is_on() {
        return Err("ERR MOVE is not allowed in cluster mode".into());
    }
    let (from, to, key) = (call.db(), database(call, 2)?, call.key(0));
    if from == to {
        return Err(SAME_OBJECT.into());
    }
    refuse_lost(txn, to, &key)?;
    let moved = txn.find_mut(from, &key)?.is_some()
        && txn.find_mut(to, &key)?.is_none()
        && txn.keys().rename((from, &key), (to, &key))?;
    if moved {
        call.wrote();
        call.effects.notify(EventClass::Generic, from, "move_from", key.bytes());
        call.effects.notify(EventClass::Generic, to, "move_to", key.bytes());
    }
    call.out.integer(i64::from(moved));
    Ok(())
}

/// Refuses a key in another database whose entry was lost with its name: lookups there did not
/// check it.
fn refuse_lost(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> Done {
    txn.lost(db, key).map_or(Ok(()), |at| Err(Failure::damaged(at)))
}

fn database(call: &Call<'_>, at: usize) -> Result<Db, Failure> {
    let number = call.int32(at)?;
    let db = usize::try_from(number).ok().and_then(|n| call.engine.config().database(n));
    db.ok_or_else(|| DB_OUT_OF_RANGE.into())
}

pub(crate) const COPY: CommandSpec = CommandSpec {
    name: "copy",
    summary: "Copy a key",
    complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
    since: "6.2.0",
    group: Group::Generic,
    arity: -3,
    flags: WRITE | DENYOOM,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS), KeySpec::one(2, KEY_OW | KEY_UPDATE)],
    args: &[
        key("source", 0),
        key("destination", 1),
        integer("destination-db").token("DB").optional(),
        token("replace", "REPLACE").optional(),
    ],
    weigh: Some(weights::copies),
    run: Run::Keys(copy),
    ..CommandSpec::EMPTY
};

fn copy(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, from, to): (Db, Key<'_>, Key<'_>) = (call.db(), call.key(0), call.key(1));
    let (target, replace) = parse_copy(call)?;
    if target != Db::default() && call.engine.cluster().is_on() {
        return Err("ERR Copying to another database is not allowed in cluster mode".into());
    }
    if db == target && from.bytes() == to.bytes() {
        return Err(SAME_OBJECT.into());
    }
    refuse_lost(txn, target, &to)?;
    let copied = txn.find(db, &from).is_some()
        && (replace || txn.find_mut(target, &to)?.is_none())
        && txn.keys().copy((db, &from), (target, &to))?;
    if copied {
        call.wrote();
        call.effects.notify(EventClass::Generic, target, "copy_to", to.bytes());
    }
    call.out.integer(i64::from(copied));
    Ok(())
}

fn parse_copy(call: &Call<'_>) -> Result<(Db, bool), Failure> {
    let (mut target, mut replace) = (call.db(), false);
    let mut at = 3;
    while at < call.args.len() {
        if call.is(at, "REPLACE") {
            replace = true;
        } else if call.is(at, "DB") && at + 1 < call.args.len() {
            target = database(call, at + 1)?;
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok((target, replace))
}
