//! APPEND and SETRANGE: changes inside a string.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Expire, Txn};

use super::check_len;

pub(crate) const APPEND: CommandSpec = CommandSpec {
    name: "append",
    summary: "Append a value to a key",
    complexity: "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any size, since the dynamic string library used by Redis will double the free space available on every reallocation.",
    since: "2.0.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    args: &[key("key", 0), string("value")],
    run: Run::Keys(append),
    ..CommandSpec::EMPTY
};

fn append(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key, bytes) = (call.db(), call.key(0), call.args[2]);
    let len = match txn.find_mut(db, &key)? {
        Some(entry) => {
            check_len(call, txn.string(&entry)?.len(), bytes.len())?;
            txn.strings().append(db, &key, bytes)?
        }
        None => {
            txn.strings().set(db, &key, bytes, Expire::Clear)?;
            bytes.len()
        }
    };
    call.wrote();
    call.notify(EventClass::String, "append", &key);
    call.out.integer(len as i64);
    Ok(())
}

pub(crate) const SETRANGE: CommandSpec = CommandSpec {
    name: "setrange",
    summary: "Overwrite part of a string at key starting at the specified offset",
    complexity: "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
    since: "2.2.0",
    group: Group::String,
    arity: 4,
    flags: WRITE | DENYOOM,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    args: &[key("key", 0), integer("offset"), string("value")],
    run: Run::Keys(setrange),
    ..CommandSpec::EMPTY
};

fn setrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let offset = call.int(2)?;
    let at = usize::try_from(offset).map_err(|_| "ERR offset is out of range")?;
    let (db, key, bytes) = (call.db(), call.key(0), call.args[3]);
    let len = match txn.find_mut(db, &key)? {
        Some(entry) => txn.string(&entry)?.len(),
        None => 0,
    };
    if bytes.is_empty() {
        call.out.integer(len as i64);
        return Ok(());
    }
    check_len(call, at, bytes.len())?;
    let len = txn.strings().set_range(db, &key, at, bytes)?;
    call.wrote();
    call.notify(EventClass::String, "setrange", &key);
    call.out.integer(len as i64);
    Ok(())
}
