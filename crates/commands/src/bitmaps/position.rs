//! BITPOS: where the first set or clear bit is.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;
use keyspace::{Bits, Txn};

use super::in_bits;

pub(crate) const BITPOS: CommandSpec = CommandSpec {
    name: "bitpos",
    summary: "Find first bit set or clear in a string",
    complexity: "O(N)",
    since: "2.8.7",
    group: Group::Bitmap,
    arity: -3,
    flags: READONLY,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
    args: &[
        key("key", 0),
        integer("bit"),
        block(
            "index",
            &[
                integer("start"),
                block(
                    "end_index",
                    &[
                        integer("end"),
                        oneof("index_unit", &[token("byte", "BYTE"), token("bit", "BIT")])
                            .since("7.0.0")
                            .optional(),
                    ],
                )
                .optional(),
            ],
        )
        .optional(),
    ],
    weigh: Some(weights::reads_all),
    run: Run::Keys(bitpos),
    ..CommandSpec::EMPTY
};

fn bitpos(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let set = match call.int(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(entry) = txn.find(call.db(), &call.key(0)) else {
        call.out.integer(if set { -1 } else { 0 });
        return Ok(());
    };
    let value = txn.string(&entry)?;
    let len = value.len();
    let bits = match call.args.len() {
        3 => Some(Bits::all(len)).filter(|_| len > 0),
        4 => Bits::within(len, call.int(3)?, -1, false),
        5 | 6 => {
            let start = call.int(3)?;
            let in_bits = call.args.len() == 6 && in_bits(call, 5)?;
            Bits::within(len, start, call.int(4)?, in_bits)
        }
        _ => return Err(SYNTAX.into()),
    };
    let found = bits.map_or(Ok(None), |bits| value.find_bit(bits, set))?;
    // After a string's end there are zeros, unless an end was given.
    let zero_after = !set && bits.is_some() && call.args.len() < 5;
    call.out.integer(match found {
        Some(at) => at as i64,
        None if zero_after => len as i64 * 8,
        None => -1,
    });
    Ok(())
}
