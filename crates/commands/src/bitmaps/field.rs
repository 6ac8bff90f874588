//! BITFIELD: integers of any width inside a string, read, set and counted.

use keyspace::Txn;

use super::integer::{Overflow, SPAN, Width};
use super::{bit_offset, window, writable};
use crate::call::{Call, Run};
use crate::failure::{Done, Failure, SYNTAX};
use crate::spec::*;

pub(crate) const BITFIELD: CommandSpec = CommandSpec {
    name: "bitfield",
    summary: "Perform arbitrary bitfield integer operations on strings",
    complexity: "O(1) for each subcommand specified",
    since: "3.2.0",
    group: Group::Bitmap,
    arity: -2,
    flags: WRITE | DENYOOM,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE | KEY_VARIABLE)
        .notes("This command allows both access and modification of the key")],
    args: &[
        key("key", 0),
        oneof(
            "operation",
            &[
                block("encoding_offset", &[string("encoding"), integer("offset")]).token("GET"),
                block(
                    "write",
                    &[
                        oneof(
                            "wrap_sat_fail",
                            &[token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL")],
                        )
                        .token("OVERFLOW")
                        .optional(),
                        oneof(
                            "write_operation",
                            &[
                                block(
                                    "encoding_offset_value",
                                    &[string("encoding"), integer("offset"), integer("value")],
                                )
                                .token("SET"),
                                block(
                                    "encoding_offset_increment",
                                    &[string("encoding"), integer("offset"), integer("increment")],
                                )
                                .token("INCRBY"),
                            ],
                        ),
                    ],
                ),
            ],
        )
        .optional()
        .multiple(),
    ],
    run: Run::Keys(bitfield),
    ..CommandSpec::EMPTY
};

pub(crate) const BITFIELD_RO: CommandSpec = CommandSpec {
    name: "bitfield_ro",
    summary: "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD",
    complexity: "O(1) for each subcommand specified",
    since: "6.0.0",
    group: Group::Bitmap,
    arity: -2,
    flags: READONLY | FAST,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        block("encoding_offset", &[string("encoding"), integer("offset")])
            .token("GET")
            .optional()
            .multiple()
            .multiple_token(),
    ],
    run: Run::Keys(bitfield_ro),
    ..CommandSpec::EMPTY
};

const BAD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                        supported but i64 is.";

/// One subcommand.
struct Operation {
    width: Width,
    offset: u64,
    change: Option<Change>,
}

enum Change {
    Set(i64, Overflow),
    Add(i64, Overflow),
}

fn bitfield(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let operations = parse(call)?;
    let writes = operations.iter().filter(|operation| operation.change.is_some());
    let last = writes.map(|operation| operation.offset + u64::from(operation.width.bits) - 1).max();
    match last {
        Some(last) => change(call, txn, &operations, last),
        None => read(call, txn, &operations),
    }
}

fn bitfield_ro(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let operations = parse(call)?;
    if operations.iter().any(|operation| operation.change.is_some()) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    read(call, txn, &operations)
}

fn parse(call: &Call<'_>) -> Result<Vec<Operation>, Failure> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < call.args.len() {
        let rest = call.args.len() - at - 1;
        if call.is(at, "OVERFLOW") && rest >= 1 {
            overflow = parse_overflow(call, at + 1)?;
            at += 2;
            continue;
        }
        let set = call.is(at, "SET");
        let writes = (set || call.is(at, "INCRBY")) && rest >= 3;
        let reads = call.is(at, "GET") && rest >= 2;
        if !(writes || reads) {
            return Err(SYNTAX.into());
        }
        let width = Width::parse(call.args[at + 1]).ok_or(BAD_TYPE)?;
        let offset = bit_offset(call, at + 2, Some(width.bits))?;
        let change = match writes {
            true if set => Some(Change::Set(call.int(at + 3)?, overflow)),
            true => Some(Change::Add(call.int(at + 3)?, overflow)),
            false => None,
        };
        operations.push(Operation { width, offset, change });
        at += if writes { 4 } else { 3 };
    }
    Ok(operations)
}

fn parse_overflow(call: &Call<'_>, at: usize) -> Result<Overflow, Failure> {
    let names = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
    let found = names.iter().find(|(name, _)| call.is(at, name));
    found.map(|(_, overflow)| *overflow).ok_or_else(|| "ERR Invalid OVERFLOW type specified".into())
}

/// Nothing but GET: a key that is not there reads as zeros and is not made.
fn read(call: &mut Call<'_>, txn: &mut Txn<'_>, operations: &[Operation]) -> Done {
    let entry = txn.find(call.db(), &call.key(0));
    let value = entry.as_ref().map(|entry| txn.string(entry)).transpose()?;
    call.out.array(operations.len());
    for operation in operations {
        let bytes = value.as_ref().map_or([0; SPAN], |value| window(value, byte(operation.offset)));
        call.out.integer(operation.width.read(bytes, bit(operation.offset)));
    }
    Ok(())
}

fn change(call: &mut Call<'_>, txn: &mut Txn<'_>, operations: &[Operation], last: u64) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let (entry, write) = writable(call, txn, last)?;
    if write {
        let [byte_of_last] = match &entry {
            Some(entry) => window(&txn.string(entry)?, byte(last)),
            None => [0],
        };
        txn.set_range(db, &key, byte(last), &[byte_of_last])?;
    }
    let mut changed = write;
    call.out.array(operations.len());
    for operation in operations {
        let Some(entry) = txn.peek(db, &key) else { return Err(SYNTAX.into()) };
        let bytes = window(&txn.string(&entry)?, byte(operation.offset));
        let old = operation.width.read(bytes, bit(operation.offset));
        let (new, reply) = match &operation.change {
            None => (Some(old), old),
            Some(Change::Set(value, overflow)) => {
                (operation.width.fit(operation.width.given(*value), *overflow), old)
            }
            Some(Change::Add(by, overflow)) => {
                let new = operation.width.fit(i128::from(old) + i128::from(*by), *overflow);
                (new, new.unwrap_or(old))
            }
        };
        let Some(new) = new else {
            call.out.null();
            continue;
        };
        call.out.integer(reply);
        if new != old {
            let bytes = operation.width.write(bytes, bit(operation.offset), new);
            let end = operation.offset + u64::from(operation.width.bits) - 1;
            let touched = byte(end) - byte(operation.offset) + 1;
            txn.set_range(db, &key, byte(operation.offset), &bytes[..touched])?;
            changed = true;
        }
    }
    if changed {
        call.wrote();
    }
    Ok(())
}

fn byte(offset: u64) -> usize {
    (offset >> 3) as usize
}

fn bit(offset: u64) -> u32 {
    (offset & 7) as u32
}
