//! BITOP: strings combined bit by bit. The shorter ones are continued with zeros.

use keyspace::{Expire, Key, Txn};

use crate::call::{Call, Run};
use crate::failure::{Done, Failure, SYNTAX};
use crate::spec::*;

pub(crate) const BITOP: CommandSpec = CommandSpec {
    name: "bitop",
    summary: "Perform bitwise operations between strings",
    complexity: "O(N)",
    since: "2.6.0",
    group: Group::Bitmap,
    arity: -4,
    flags: WRITE | DENYOOM,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(2, KEY_OW | KEY_UPDATE), KeySpec::rest(3, 1, KEY_RO | KEY_ACCESS)],
    args: &[string("operation"), key("destkey", 0), key("key", 1).multiple()],
    run: Run::Keys(bitop),
    ..CommandSpec::EMPTY
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

fn bitop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let operation = operation(call)?;
    let [target, sources @ ..] = call.keys else { return Err(SYNTAX.into()) };
    if operation == Operation::Not && sources.len() != 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let result = combine(call, txn, operation, sources)?;
    if result.is_empty() {
        if txn.delete(call.db(), target)? {
            call.wrote();
        }
    } else {
        txn.set_built(call.db(), target, &result, Expire::Clear)?;
        call.wrote();
    }
    call.out.integer(result.len() as i64);
    Ok(())
}

fn operation(call: &Call<'_>) -> Result<Operation, Failure> {
    let names = [
        ("AND", Operation::And),
        ("OR", Operation::Or),
        ("XOR", Operation::Xor),
        ("NOT", Operation::Not),
    ];
    let found = names.iter().find(|(name, _)| call.is(1, name));
    found.map(|(_, operation)| *operation).ok_or_else(|| SYNTAX.into())
}

fn combine(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    operation: Operation,
    sources: &[Key<'_>],
) -> Result<Vec<u8>, Failure> {
    let mut result: Option<Vec<u8>> = None;
    for key in sources {
        // As for a write: one that has expired is deleted first, so that a replay, for which nothing expires, reads the same.
        let bytes = match txn.find_mut(call.db(), key)? {
            Some(entry) => txn.string(&entry)?.to_vec(),
            None => Vec::new(),
        };
        result = Some(match result {
            None => bytes,
            Some(before) => merge(operation, before, bytes),
        });
    }
    let mut result = result.unwrap_or_default();
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(result)
}

fn merge(operation: Operation, a: Vec<u8>, b: Vec<u8>) -> Vec<u8> {
    let (mut long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (head, rest) = long.split_at_mut(short.len());
    let pairs = head.iter_mut().zip(&short);
    match operation {
        Operation::And => {
            pairs.for_each(|(to, with)| *to &= with);
            rest.fill(0);
        }
        Operation::Or => pairs.for_each(|(to, with)| *to |= with),
        Operation::Xor => pairs.for_each(|(to, with)| *to ^= with),
        Operation::Not => {}
    }
    long
}
