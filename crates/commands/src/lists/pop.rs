//! LPOP, RPOP, LMPOP, and the forms that wait: BLPOP, BRPOP, BLMPOP.
//!
//! All are logged as the LPOP or RPOP that they amount to.

use engine::call::{Call, MOST_REPLY, Run, Words};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Key, Side, Txn, Type};
use resp::number::parse_i64;

use super::side;
use crate::blocking::{BlockedOperation, Serving, seconds, serve_or_block};
use crate::collections::pops_of_one;

pub(crate) const LPOP: CommandSpec = CommandSpec {
    name: "lpop",
    summary: "Remove and get the first elements in a list",
    complexity: "O(N) where N is the number of elements returned",
    since: "1.0.0",
    group: Group::List,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("6.2.0", "Added the `count` argument.")],
    args: &[key("key", 0), integer("count").since("6.2.0").optional()],
    weigh: Some(weights::reads_count),
    run: Run::Keys(lpop),
    joined: Some(lpop_joined),
    ..CommandSpec::EMPTY
};

fn lpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    pop(call, txn, Side::Head)
}

pub(crate) const RPOP: CommandSpec = CommandSpec {
    name: "rpop",
    summary: "Remove and get the last elements in a list",
    complexity: "O(N) where N is the number of elements returned",
    since: "1.0.0",
    group: Group::List,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("6.2.0", "Added the `count` argument.")],
    args: &[key("key", 0), integer("count").since("6.2.0").optional()],
    weigh: Some(weights::reads_count),
    run: Run::Keys(rpop),
    joined: Some(rpop_joined),
    ..CommandSpec::EMPTY
};

fn rpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    pop(call, txn, Side::Tail)
}

fn pop(call: &mut Call<'_>, txn: &mut Txn<'_>, side: Side) -> Done {
    if call.args.len() > 3 {
        let name = call.command.spec.name;
        return Err(Failure::text(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let count = match call.args.get(2) {
        Some(count) => Some(
            parse_i64(count)
                .and_then(|count| u64::try_from(count).ok())
                .ok_or("ERR value is out of range, must be positive")?,
        ),
        None => None,
    };
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.find_mut(db, &key)? else {
        match count {
            Some(_) => call.out.null_array(),
            None => call.out.null(),
        }
        return Ok(());
    };
    let len = txn.list(&entry)?.len()?;
    let some = count.unwrap_or(1).min(len);
    if count.is_some() {
        call.out.array(some as usize);
    }
    if some > 0 {
        txn.lists().pop(db, &key, side, some, |element| call.out.bulk(element))?;
        call.wrote();
        call.notify_taken(EventClass::List, txn, event(side), &key);
    }
    Ok(())
}

fn lpop_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    pop_joined(call, txn, requests, Side::Head)
}

fn rpop_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    pop_joined(call, txn, requests, Side::Tail)
}

/// Pops one element for each of several requests, from a list that has more.
fn pop_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
    side: Side,
) -> Result<usize, Failure> {
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.peek(db, &key) else { return Ok(0) };
    let most = txn.list(&entry)?.len()?.saturating_sub(1);
    let requests = pops_of_one(requests, most);
    if requests.len() < 2 {
        return Ok(0);
    }
    let mut bytes = 0;
    txn.lists().pop(db, &key, side, requests.len() as u64, |element| {
        bytes += element.len();
        if bytes <= MOST_REPLY {
            call.out.bulk(element);
        }
    })?;
    if bytes > MOST_REPLY {
        return Err(Failure::takes_long(None));
    }
    for args in requests {
        call.begin_joined(args);
        call.wrote();
        call.notify(EventClass::List, event(side), &key);
    }
    Ok(requests.len())
}

pub(crate) const LMPOP: CommandSpec = CommandSpec {
    name: "lmpop",
    summary: "Pop elements from a list",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    since: "7.0.0",
    group: Group::List,
    arity: -4,
    flags: WRITE,
    acl: ACL_LIST,
    keys: &[KeySpec::new(
        Begin::Index(1),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RW | KEY_ACCESS | KEY_DELETE,
    )],
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").token("COUNT").optional(),
    ],
    weigh: Some(weights::reads_some),
    run: Run::Keys(lmpop),
    ..CommandSpec::EMPTY
};

fn lmpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (side, count) = parse_many(call, 1)?;
    for number in 0..call.keys.len() {
        let key = call.key(number);
        let Some(entry) = txn.find_mut(call.db(), &key)? else { continue };
        let some = txn.list(&entry)?.len()?.min(count);
        call.out.array(2);
        call.out.bulk(key.bytes());
        call.out.array(some as usize);
        txn.lists().pop(call.db(), &key, side, some, |element| call.out.bulk(element))?;
        let name: &[u8] = if side == Side::Head { b"LPOP" } else { b"RPOP" };
        let some = itoa::Buffer::new().format(some).to_owned();
        call.wrote_as(&[name, key.bytes(), some.as_bytes()]);
        call.notify_taken(EventClass::List, txn, event(side), &key);
        return Ok(());
    }
    call.out.null_array();
    Ok(())
}

/// Returns the event of a pop from this side.
fn event(side: Side) -> &'static str {
    if side == Side::Head { "lpop" } else { "rpop" }
}

/// Pops from one list; the reply names the key. With a count it is the operation of BLMPOP.
struct Pop {
    side: Side,
    count: Option<u64>,
}

impl BlockedOperation for Pop {
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure> {
        let Some(entry) = txn.find_mut(serving.db, key)? else { return Ok(false) };
        let some = txn.list(&entry)?.len()?.min(self.count.unwrap_or(1));
        serving.out.array(2);
        serving.out.bulk(key.bytes());
        if self.count.is_some() {
            serving.out.array(some as usize);
        }
        txn.lists().pop(serving.db, key, self.side, some, |element| serving.out.bulk(element))?;
        let name: &[u8] = if self.side == Side::Head { b"LPOP" } else { b"RPOP" };
        match self.count {
            Some(_) => {
                let some = itoa::Buffer::new().format(some).to_owned();
                serving.wrote_as(&[name, key.bytes(), some.as_bytes()]);
            }
            None => serving.wrote_as(&[name, key.bytes()]),
        }
        serving.notify_taken(EventClass::List, txn, event(self.side), key);
        Ok(true)
    }
}

pub(crate) const BLPOP: CommandSpec = CommandSpec {
    name: "blpop",
    summary: "Remove and get the first element in a list, or block until one is available",
    complexity: "O(N) where N is the number of provided keys.",
    since: "2.0.0",
    group: Group::List,
    arity: -3,
    flags: WRITE | NOSCRIPT | BLOCKING,
    acl: ACL_LIST,
    keys: &[KeySpec::range(1, -2, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    args: &[key("key", 0).multiple(), double("timeout")],
    run: Run::Keys(blpop),
    ..CommandSpec::EMPTY
};

fn blpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let until = seconds(call, call.args.len() - 1)?;
    serve_or_block(call, txn, Type::List, call.keys, Pop { side: Side::Head, count: None }, until)
}

pub(crate) const BRPOP: CommandSpec = CommandSpec {
    name: "brpop",
    summary: "Remove and get the last element in a list, or block until one is available",
    complexity: "O(N) where N is the number of provided keys.",
    since: "2.0.0",
    group: Group::List,
    arity: -3,
    flags: WRITE | NOSCRIPT | BLOCKING,
    acl: ACL_LIST,
    keys: &[KeySpec::range(1, -2, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    args: &[key("key", 0).multiple(), double("timeout")],
    run: Run::Keys(brpop),
    ..CommandSpec::EMPTY
};

fn brpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let until = seconds(call, call.args.len() - 1)?;
    serve_or_block(call, txn, Type::List, call.keys, Pop { side: Side::Tail, count: None }, until)
}

pub(crate) const BLMPOP: CommandSpec = CommandSpec {
    name: "blmpop",
    summary: "Pop elements from a list, or block until one is available",
    complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    since: "7.0.0",
    group: Group::List,
    arity: -5,
    flags: WRITE | BLOCKING,
    acl: ACL_LIST,
    keys: &[KeySpec::new(
        Begin::Index(2),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RW | KEY_ACCESS | KEY_DELETE,
    )],
    args: &[
        double("timeout"),
        integer("numkeys"),
        key("key", 0).multiple(),
        oneof("where", &[token("left", "LEFT"), token("right", "RIGHT")]),
        integer("count").token("COUNT").optional(),
    ],
    run: Run::Keys(blmpop),
    ..CommandSpec::EMPTY
};

fn blmpop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (side, count) = parse_many(call, 2)?;
    let until = seconds(call, 1)?;
    let operation = Pop { side, count: Some(count) };
    serve_or_block(call, txn, Type::List, call.keys, operation, until)
}

/// Parses the arguments from the number of keys on: the side, and the number of elements.
fn parse_many(call: &Call<'_>, at: usize) -> Result<(Side, u64), Failure> {
    let keys = parse_i64(call.args[at]).filter(|&keys| keys > 0);
    let keys = keys.ok_or("ERR numkeys should be greater than 0")?;
    let place = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(at + 1));
    let place = place.filter(|&place| place < call.args.len()).ok_or(SYNTAX)?;
    let side = side(call.args[place])?;
    let mut count = None;
    let mut rest = call.args[place + 1..].iter();
    while let Some(word) = rest.next() {
        let is_count = count.is_none() && word.eq_ignore_ascii_case(b"COUNT");
        let number = rest.next().filter(|_| is_count).ok_or(SYNTAX)?;
        let number = parse_i64(number).filter(|&number| number > 0);
        count = Some(number.ok_or("ERR count should be greater than 0")?);
    }
    Ok((side, count.unwrap_or(1) as u64))
}
