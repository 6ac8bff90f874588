//! GETRANGE and its old name SUBSTR.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

use super::reply_part;

pub(crate) const GETRANGE: CommandSpec = CommandSpec {
    name: "getrange",
    summary: "Get a substring of the string stored at a key",
    complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
    since: "2.4.0",
    group: Group::String,
    arity: 4,
    flags: READONLY,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), integer("start"), integer("end")],
    run: Run::Keys(getrange),
    ..CommandSpec::EMPTY
};

pub(crate) const SUBSTR: CommandSpec = CommandSpec {
    name: "substr",
    summary: "Get a substring of the string stored at a key",
    complexity: "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
    since: "1.0.0",
    group: Group::String,
    arity: 4,
    flags: READONLY,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    deprecated: Some(Deprecated { since: "2.0.0", instead: "`GETRANGE`" }),
    args: &[key("key", 0), integer("start"), integer("end")],
    run: Run::Keys(getrange),
    ..CommandSpec::EMPTY
};

fn getrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (start, end) = (call.int(2)?, call.int(3)?);
    let Some(entry) = txn.find(call.db(), &call.key(0)) else {
        call.out.bulk("");
        return Ok(());
    };
    let value = txn.string(&entry)?;
    match within(start, end, value.len()) {
        Some((from, to)) => reply_part(call.out, &value, from, to)?,
        None => call.out.bulk(""),
    }
    Ok(())
}

/// Returns the range of bytes from `start` to `end`, both included and negative from the end;
/// `None` if it is empty.
fn within(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return None;
    }
    let len = len as i64;
    let from_end = |at: i64| if at < 0 { len.saturating_add(at).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    (start <= end).then_some((start as usize, end as usize + 1))
}
