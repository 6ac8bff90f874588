//! HSCAN.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

use super::hash;
use crate::collections::scan::scan;

pub(crate) const HSCAN: CommandSpec = CommandSpec {
    name: "hscan",
    summary: "Incrementally iterate hash fields and associated values",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..",
    since: "2.8.0",
    group: Group::Hash,
    arity: -3,
    flags: READONLY,
    acl: ACL_HASH,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("7.4.0", "Added the `NOVALUES` flag.")],
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
        token("novalues", "NOVALUES").since("7.4.0").optional(),
    ],
    weigh: Some(weights::reads_some),
    run: Run::Keys(hscan),
    ..CommandSpec::EMPTY
};

fn hscan(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    scan(call, txn, hash, true)
}
