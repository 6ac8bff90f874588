//! Geospatial items: sorted sets whose scores are interleaved coordinates. The keyspace interprets
//! scores and searches areas; here are arguments and replies.

mod add;
mod distance;
mod point;
mod position;
mod radius;
mod search;
mod select;

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &add::GEOADD,
    &distance::GEODIST,
    &position::GEOHASH,
    &position::GEOPOS,
    &radius::GEORADIUS,
    &radius::GEORADIUSBYMEMBER,
    &radius::GEORADIUSBYMEMBER_RO,
    &radius::GEORADIUS_RO,
    &search::GEOSEARCH,
    &search::GEOSEARCHSTORE,
];
