//! LMOVE and RPOPLPUSH move an element from one list to another, or within one. BLMOVE and
//! BRPOPLPUSH also wait for the source, and are logged as the former.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Key, Side, Txn, Type};
use resp::Writer;

use super::side;
use crate::blocking::{BlockedOperation, Serving, seconds, serve_or_block};

pub(crate) const LMOVE: CommandSpec = CommandSpec {
    name: "lmove",
    summary: "Pop an element from a list, push it to another list and return it",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::List,
    arity: 5,
    flags: WRITE | DENYOOM,
    acl: ACL_LIST,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
    ],
    run: Run::Keys(lmove),
    ..CommandSpec::EMPTY
};

fn lmove(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (from, to) = (side(call.args[3])?, side(call.args[4])?);
    relay(call, txn, from, to)
}

pub(crate) const RPOPLPUSH: CommandSpec = CommandSpec {
    name: "rpoplpush",
    summary: "Remove the last element in a list, prepend it to another list and return it",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::List,
    arity: 3,
    flags: WRITE | DENYOOM,
    acl: ACL_LIST,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
    }),
    args: &[key("source", 0), key("destination", 1)],
    run: Run::Keys(rpoplpush),
    ..CommandSpec::EMPTY
};

fn rpoplpush(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    relay(call, txn, Side::Tail, Side::Head)
}

fn relay(call: &mut Call<'_>, txn: &mut Txn<'_>, from: Side, to: Side) -> Done {
    let (source, target) = (call.key(0), call.key(1));
    if shift(&mut call.serving(), txn, &source, from, &target, to)? {
        call.wrote();
    } else {
        call.out.null();
    }
    Ok(())
}

/// Moves one element and replies with it; `false` if there is none.
fn shift(
    serving: &mut Serving<'_>,
    txn: &mut Txn<'_>,
    source: &Key<'_>,
    from: Side,
    target: &Key<'_>,
    to: Side,
) -> Result<bool, Failure> {
    let db = serving.db;
    let Some(entry) = txn.find_mut(db, source)? else { return Ok(false) };
    let len = txn.list(&entry)?.len()?;
    if let Some(entry) = txn.find_mut(db, target)? {
        txn.list(&entry)?;
    }
    let limits = serving.config.list_limits();
    let is_round = source.bytes() == target.bytes();
    let mut moved = Vec::new();
    if is_round && len == 1 {
        // The key must not be deleted in between, or its expiry time would be lost.
        if let Some(entry) = txn.find_mut(db, source)? {
            txn.list(&entry)?.visit(0, Side::Head, |element| {
                moved.extend_from_slice(element);
                false
            })?;
        }
        txn.record_written(db, source);
    } else {
        txn.lists().pop(db, source, from, 1, |element| moved.extend_from_slice(element))?;
        txn.lists().push(db, target, to, [moved.as_slice()], limits)?;
    }
    let (taken, pushed) = (events(from).0, events(to).1);
    serving.notify(EventClass::List, pushed, target);
    serving.notify_taken(EventClass::List, txn, taken, source);
    serving.out.bulk(moved);
    Ok(true)
}

/// Moves one element to another list once the source has any.
struct Move {
    from: Side,
    target: Box<[u8]>,
    to: Side,
    /// True for BRPOPLPUSH.
    is_old: bool,
}

impl BlockedOperation for Move {
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        let target = txn.key(&self.target);
        let moved = shift(serving, txn, key, self.from, &target, self.to)?;
        if moved && self.is_old {
            serving.wrote_as(&[b"RPOPLPUSH", key.bytes(), &self.target]);
        } else if moved {
            let (from, to) = (word(self.from), word(self.to));
            serving.wrote_as(&[b"LMOVE", key.bytes(), &self.target, from, to]);
        }
        Ok(moved)
    }

    fn target(&self) -> Option<&[u8]> {
        Some(&self.target)
    }

    fn refuse(&self, out: &mut Writer) {
        out.null();
    }
}

/// Returns the events of a pop from, and of a push to, this side.
fn events(side: Side) -> (&'static str, &'static str) {
    match side {
        Side::Head => ("lpop", "lpush"),
        Side::Tail => ("rpop", "rpush"),
    }
}

fn word(side: Side) -> &'static [u8] {
    match side {
        Side::Head => b"LEFT",
        Side::Tail => b"RIGHT",
    }
}

pub(crate) const BLMOVE: CommandSpec = CommandSpec {
    name: "blmove",
    summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::List,
    arity: 6,
    flags: WRITE | DENYOOM | NOSCRIPT | BLOCKING,
    acl: ACL_LIST,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
        double("timeout"),
    ],
    run: Run::Keys(blmove),
    ..CommandSpec::EMPTY
};

fn blmove(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (from, to) = (side(call.args[3])?, side(call.args[4])?);
    let until = seconds(call, 5)?;
    let operation = Move { from, target: call.args[2].into(), to, is_old: false };
    serve_or_block(call, txn, Type::List, &call.keys[..1], operation, until)
}

pub(crate) const BRPOPLPUSH: CommandSpec = CommandSpec {
    name: "brpoplpush",
    summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::List,
    arity: 4,
    flags: WRITE | DENYOOM | NOSCRIPT | BLOCKING,
    acl: ACL_LIST,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
    }),
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    args: &[key("source", 0), key("destination", 1), double("timeout")],
    run: Run::Keys(brpoplpush),
    ..CommandSpec::EMPTY
};

fn brpoplpush(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let until = seconds(call, 3)?;
    let (from, to) = (Side::Tail, Side::Head);
    let operation = Move { from, target: call.args[2].into(), to, is_old: true };
    serve_or_block(call, txn, Type::List, &call.keys[..1], operation, until)
}
