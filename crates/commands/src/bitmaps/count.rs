//! BITCOUNT: how many bits are set.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;
use keyspace::{Bits, Txn};

use super::in_bits;

pub(crate) const BITCOUNT: CommandSpec = CommandSpec {
    name: "bitcount",
    summary: "Count set bits in a string",
    complexity: "O(N)",
    since: "2.6.0",
    group: Group::Bitmap,
    arity: -2,
    flags: READONLY,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
    args: &[
        key("key", 0),
        block(
            "index",
            &[
                integer("start"),
                integer("end"),
                oneof("index_unit", &[token("byte", "BYTE"), token("bit", "BIT")])
                    .since("7.0.0")
                    .optional(),
            ],
        )
        .optional(),
    ],
    weigh: Some(weights::reads_all),
    run: Run::Keys(bitcount),
    ..CommandSpec::EMPTY
};

fn bitcount(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let Some(entry) = txn.find(call.db(), &call.key(0)) else {
        call.out.integer(0);
        return Ok(());
    };
    let value = txn.string(&entry)?;
    let bits = match call.args.len() {
        2 => Some(Bits::all(value.len())),
        4 | 5 => {
            let (start, end) = (call.int(2)?, call.int(3)?);
            // Redis checks the unit only if there may be something to count.
            let backwards = start < 0 && end < 0 && start > end;
            let in_bits = !backwards && call.args.len() == 5 && in_bits(call, 4)?;
            Bits::within(value.len(), start, end, in_bits).filter(|_| !backwards)
        }
        _ => return Err(SYNTAX.into()),
    };
    let count = bits.map_or(Ok(0), |bits| value.count_ones(bits))?;
    call.out.integer(count as i64);
    Ok(())
}
