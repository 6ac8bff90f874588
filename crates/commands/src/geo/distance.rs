//! GEODIST.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;
use keyspace::Txn;
use keyspace::geo::point_of;

use super::point::unit;
use crate::sorted_sets::sorted_set;

pub(crate) const GEODIST: CommandSpec = CommandSpec {
    name: "geodist",
    summary: "Returns the distance between two members of a geospatial index",
    complexity: "O(log(N))",
    since: "3.2.0",
    group: Group::Geo,
    arity: -4,
    flags: READONLY,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        string("member1"),
        string("member2"),
        oneof("unit", &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")])
            .optional(),
    ],
    run: Run::Keys(geodist),
    ..CommandSpec::EMPTY
};

fn geodist(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let metres = match call.args.len() {
        4 => 1.0,
        5 => unit(call.args[4])?,
        _ => return Err(SYNTAX.into()),
    };
    let pair = match sorted_set(call, txn)? {
        Some(sorted_set) => sorted_set.score(call.args[2])?.zip(sorted_set.score(call.args[3])?),
        None => None,
    };
    match pair {
        Some((one, other)) => {
            reply_distance(call, point_of(one).distance(point_of(other)) / metres);
        }
        None => call.out.null(),
    }
    Ok(())
}

/// Writes a distance, with four digits after the point.
pub(super) fn reply_distance(call: &mut Call<'_>, distance: f64) {
    call.out.bulk(format!("{distance:.4}"));
}
