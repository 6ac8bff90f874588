//! Places on the Earth: sorted sets whose scores are interleaved coordinates.
//!
//! A score is a whole number of 52 bits, 26 of the longitude and 26 of the latitude by turns, so that places that are near each
//! other have near scores more often than not: a search looks at the ranges of scores of a few cells. The numbers are Redis's,
//! so that a sorted set that one of them made means the same to the other.

mod add;
mod area;
mod cell;
mod distance;
mod point;
mod position;
mod radius;
mod search;
mod select;

use crate::spec::CommandSpec;

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
