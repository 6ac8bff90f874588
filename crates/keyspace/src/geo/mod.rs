//! Geospatial items: sorted sets whose scores are interleaved coordinates.
//!
//! A score is a whole number of 52 bits, in which 26 bits of the longitude and 26 of the latitude
//! alternate. So places near each other usually have scores near each other, and a search reads the
//! ranges of scores of a few cells. The scores are Redis's: either server can read a sorted set
//! that the other one wrote.

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
    /// Farthest first (`Some(true)`), nearest first (`Some(false)`), or in any order (`None`).
    pub descending: Option<bool>,
    /// At most this many; without `descending`, and unless `any` is set, the nearest ones.
    pub count: Option<usize>,
    /// The first ones found are enough.
    pub any: bool,
}

/// A member in an area.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundItem {
    /// The member.
    pub member: Vec<u8>,
    /// Its score, from which [`point_of`] computes its coordinates.
    pub score: f64,
    /// Its distance from the centre of the area, in metres.
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

/// Returns how many members of a sorted set a search in an area reads.
pub fn count_candidates(sorted_set: &SortedSetRef<'_>, area: &Area) -> Result<u64, Error> {
    let mut candidates = 0;
    for cell in area.cells() {
        let (min, max) = cell.scores();
        let before = sorted_set.count_below(min, false)?;
        candidates += sorted_set.count_below(max, false)?.saturating_sub(before);
    }
    Ok(candidates)
}

/// Returns the members of a sorted set that are within a polygon, with their distances from its
/// centre.
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

/// Returns the wanted ones, in the wanted order.
fn chosen(mut found: Vec<FoundItem>, wanted: Wanted) -> Vec<FoundItem> {
    // A count without `any` selects the nearest.
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

/// Returns the members in the cells of an area for which `distance_of` returns a distance, cell by
/// cell, until there are enough.
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
