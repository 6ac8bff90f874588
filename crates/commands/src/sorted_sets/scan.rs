//! ZSCAN.

use keyspace::Txn;
use resp::glob;

use super::sorted;
use crate::call::{Call, Run};
use crate::failure::Done;
use crate::keys::scan::{cursor, parse};
use crate::spec::*;

pub(crate) const ZSCAN: CommandSpec = CommandSpec {
    name: "zscan",
    summary: "Incrementally iterate sorted sets elements and associated scores",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..",
    since: "2.8.0",
    group: Group::SortedSet,
    arity: -3,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
    ],
    run: Run::Keys(zscan),
    ..CommandSpec::EMPTY
};

fn zscan(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let cursor = cursor(call.args[2]).ok_or("ERR invalid cursor")?;
    let (mut found, mut next) = (Vec::new(), 0);
    // Where there is no key, options are not looked at.
    if let Some(sorted) = sorted(call, txn)? {
        let options = parse(call, 3)?;
        next = sorted.scan(cursor, options.count, |member, score| {
            if options.pattern.is_none_or(|pattern| glob::matches(pattern, member)) {
                let mut text = Vec::new();
                resp::number::write_f64(&mut text, score);
                found.extend([member.to_vec(), text]);
            }
        })?;
    }
    call.out.array(2);
    call.out.bulk(itoa::Buffer::new().format(next));
    call.out.array(found.len());
    found.iter().for_each(|item| call.out.bulk(item));
    Ok(())
}
