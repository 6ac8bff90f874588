//! ZSCAN.
//!
//! Scores are written as Redis stores them: a small sorted set (listpack) stores whole numbers as
//! integers, which are written without an exponent.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::{Encoding, Txn};

use crate::keys::scan::{cursor, parse};

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
    weigh: Some(weights::reads_some),
    run: Run::Keys(zscan),
    ..CommandSpec::EMPTY
};

fn zscan(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let cursor = cursor(call.args[2]).ok_or("ERR invalid cursor")?;
    let (mut found, mut next) = (Vec::new(), 0);
    // If there is no key, options are not checked.
    if let Some(entry) = txn.find(call.db(), &call.key(0)) {
        let (sorted_set, encoding) = (txn.sorted_set(&entry)?, txn.properties(&entry).encoding());
        let options = parse(call, 3)?;
        next = sorted_set.scan(cursor, options.count, |member, score| {
            if options.fits(member) {
                let mut text = Vec::new();
                match whole(score).filter(|_| encoding == Encoding::Listpack) {
                    Some(number) => text.extend(itoa::Buffer::new().format(number).bytes()),
                    None => resp::number::write_f64(&mut text, score),
                }
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

/// Returns the score as an integer if Redis stores it as one: up to 2^62.
fn whole(score: f64) -> Option<i64> {
    const MOST: f64 = (1_u64 << 62) as f64;
    ((-MOST..=MOST).contains(&score) && score.fract() == 0.0).then_some(score as i64)
}
