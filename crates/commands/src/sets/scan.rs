//! SSCAN.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

use super::set;
use crate::collections::scan::scan;

pub(crate) const SSCAN: CommandSpec = CommandSpec {
    name: "sscan",
    summary: "Incrementally iterate Set elements",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..",
    since: "2.8.0",
    group: Group::Set,
    arity: -3,
    flags: READONLY,
    acl: ACL_SET,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
    ],
    weigh: Some(weights::reads_some),
    run: Run::Keys(sscan),
    ..CommandSpec::EMPTY
};

fn sscan(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    scan(call, txn, set, false)
}
