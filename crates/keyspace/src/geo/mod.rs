//! Geospatial items: sorted sets whose scores are interleaved coordinates.
//!
//! A score is a whole number of 52 bits, 26 of the longitude and 26 of the latitude by turns, so
//! that places that are near each other have near scores more often than not: a search looks at the
//! ranges of scores of a few cells. The numbers are Redis's, so that a sorted set that one of them
//! made means the same to the other.

mod area;
mod cell;
mod point;
mod polygon;

use crate::{Error, SortedSetRef};

pub use area::{Area, Shape};
pub use cell::{geohash, point_of, score_of};
pub use point::Point;
pub use polygon::Polygon;

/// Which of the members in an area are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The farthest first (`true`) or the nearest; `None`: in any order.
    pub descending: Option<bool>,
    /// At most this many; the nearest, unless an order is named.
    pub count: Option<usize>,
    /// Any that are found first will do.
    pub any: bool,
}

/// A member in an area.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundItem {
    /// The member.
    pub member: Vec<u8>,
    /// Its score, of which [`point_of`] makes its place.
    pub score: f64,
    /// From the centre of the area, in metres.
    pub distance: f64,
}

/// Returns the members of a sorted set that are in an area.
pub fn search(
    sorted_set: &SortedSetRef<'_>,
    area: &Area,
    wanted: Wanted,
) -> Result<Vec<FoundItem>, Error> {
    let enough = wanted.count.filter(|_| wanted.any).unwrap_or(usize::MAX);
    let found = visit(sorted_set, area, enough, |point| area.distance(point))?;
    Ok(chosen(found, wanted))
}

/// Returns how many members of a sorted set a search in an area looks at.
pub fn count_candidates(sorted_set: &SortedSetRef<'_>, area: &Area) -> Result<u64, Error> {
    let mut candidates = 0;
    for cell in area.cells() {
        let (min, max) = cell.scores();
        let before = sorted_set.count_below(min, false)?;
        candidates += sorted_set.count_below(max, false)?.saturating_sub(before);
    }
    Ok(candidates)
}

/// Returns the members of a sorted set that are within a polygon; their distances are those from
/// its centre.
pub fn search_polygon(
    sorted_set: &SortedSetRef<'_>,
    polygon: &Polygon,
    wanted: Wanted,
) -> Result<Vec<FoundItem>, Error> {
    let enough = wanted.count.filter(|_| wanted.any).unwrap_or(usize::MAX);
    let area = polygon.surroundings();
    let found = visit(sorted_set, &area, enough, |point| polygon.distance(point))?;
    Ok(chosen(found, wanted))
}

/// Returns those that are wanted, in their order.
fn chosen(mut found: Vec<FoundItem>, wanted: Wanted) -> Vec<FoundItem> {
    // The nearest are wanted where only some are.
    let nearest = (wanted.count.is_some() && !wanted.any).then_some(false);
    if let Some(descending) = wanted.descending.or(nearest) {
        found.sort_by(|a, b| {
            let order = a.distance.total_cmp(&b.distance);
            if descending { order.reverse() } else { order }
        });
    }
    found.truncate(wanted.count.unwrap_or(usize::MAX));
    found
}

/// Members in the cells of an area that have a distance, cell by cell, until there are enough.
fn visit(
    sorted_set: &SortedSetRef<'_>,
    area: &Area,
    enough: usize,
    distance_of: impl Fn(Point) -> Option<f64>,
) -> Result<Vec<FoundItem>, Error> {
    let mut found = Vec::new();
    for cell in area.cells() {
        let (min, max) = cell.scores();
        if found.len() >= enough {
            break;
        }
        sorted_set.visit(sorted_set.count_below(min, false)?, false, |member, score| {
            if score >= max {
                return false;
            }
            if let Some(distance) = distance_of(point_of(score)) {
                found.push(FoundItem { member: member.to_vec(), score, distance });
            }
            found.len() < enough
        })?;
    }
    Ok(found)
}
