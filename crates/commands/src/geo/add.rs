//! GEOADD.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::Txn;
use keyspace::geo::score_of;

use super::point::point;
use crate::sorted_sets::add::{ZAddOptions, add};

pub(crate) const GEOADD: CommandSpec = CommandSpec {
    name: "geoadd",
    summary: "Add one or more geospatial items in the geospatial index represented using a sorted set",
    complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -5,
    flags: WRITE | DENYOOM,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
    args: &[
        key("key", 0),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).since("6.2.0").optional(),
        token("change", "CH").since("6.2.0").optional(),
        block(
            "longitude_latitude_member",
            &[double("longitude"), double("latitude"), string("member")],
        )
        .multiple(),
    ],
    run: Run::Keys(geoadd),
    ..CommandSpec::EMPTY
};

fn geoadd(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (mut options, mut at) = (ZAddOptions::default(), 2);
    while at < call.args.len() {
        match () {
            () if call.is(at, "NX") => options.only_new = true,
            () if call.is(at, "XX") => options.only_old = true,
            () if call.is(at, "CH") => options.count_changes = true,
            () => break,
        }
        at += 1;
    }
    let words = call.args.len() - at;
    if words == 0 || !words.is_multiple_of(3) || options.only_new && options.only_old {
        return Err(SYNTAX.into());
    }
    let places = (at..call.args.len()).step_by(3);
    let pairs: Result<Vec<(f64, &[u8])>, Failure> =
        places.map(|at| Ok((score_of(point(call, at)?) as f64, call.args[at + 2]))).collect();
    add(call, txn, options, &pairs?)
}
