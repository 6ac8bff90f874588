//! GEOPOS, GEOHASH.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::spec::*;
use keyspace::Txn;
use keyspace::geo::{Point, geohash as geohash_of, point_of};

use crate::sorted_sets::sorted_set;

pub(crate) const GEOHASH: CommandSpec = CommandSpec {
    name: "geohash",
    summary: "Returns members of a geospatial index as standard geohash strings",
    complexity: "O(log(N)) for each member requested, where N is the number of elements in the sorted set.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -2,
    flags: READONLY,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("member").multiple()],
    run: Run::Keys(geohash),
    ..CommandSpec::EMPTY
};

fn geohash(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let scores = scores(call, txn)?;
    call.out.array(scores.len());
    for score in scores {
        match score {
            Some(score) => call.out.bulk(geohash_of(score)),
            None => call.out.null(),
        }
    }
    Ok(())
}

pub(crate) const GEOPOS: CommandSpec = CommandSpec {
    name: "geopos",
    summary: "Returns longitude and latitude of members of a geospatial index",
    complexity: "O(N) where N is the number of members requested.",
    since: "3.2.0",
    group: Group::Geo,
    arity: -2,
    flags: READONLY,
    acl: ACL_GEO,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("member").multiple()],
    run: Run::Keys(geopos),
    ..CommandSpec::EMPTY
};

fn geopos(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let scores = scores(call, txn)?;
    call.out.array(scores.len());
    for score in scores {
        match score {
            Some(score) => reply_point(call, point_of(score)),
            None => call.out.null_array(),
        }
    }
    Ok(())
}

/// Returns the scores of the members that the request names.
fn scores(call: &Call<'_>, txn: &mut Txn<'_>) -> Result<Vec<Option<f64>>, Failure> {
    let found = sorted_set(call, txn)?;
    let score = |member: &&[u8]| match &found {
        Some(sorted_set) => Ok(sorted_set.score(member)?),
        None => Ok(None),
    };
    call.args[2..].iter().map(score).collect()
}

/// Replies with longitude and latitude.
pub(super) fn reply_point(call: &mut Call<'_>, point: Point) {
    call.out.array(2);
    for degrees in [point.longitude, point.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        call.out.double_text(text.as_bytes());
    }
}
