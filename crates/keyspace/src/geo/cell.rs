//! Cells: parts of the Earth, which is halved repeatedly by longitude and latitude in turn.
//!
//! A cell after `step` halvings of each has `step` bits of each, interleaved, the longitude's bit
//! above the latitude's. The score of a point is the number of its cell after 26 steps.

use super::point::{MAX_LATITUDE, MAX_LONGITUDE, Point};

/// The number of steps of a score.
pub(super) const STEPS: u32 = 26;
const SCORE_BITS: u32 = 2 * STEPS;

/// A cell, by its column from west to east and its row from south to north.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) step: u32,
    column: u64,
    row: u64,
}

/// The limits of a coordinate: its minimum and its maximum.
type Limits = (f64, f64);
const LONGITUDES: Limits = (-MAX_LONGITUDE, MAX_LONGITUDE);
const LATITUDES: Limits = (-MAX_LATITUDE, MAX_LATITUDE);
/// The latitudes of standard geohashes.
const ALL_LATITUDES: Limits = (-90.0, 90.0);

fn number(value: f64, (min, max): Limits, step: u32) -> u64 {
    ((value - min) / (max - min) * (1u64 << step) as f64) as u64
}

/// Returns where part `number` begins if the range is divided into 2^`step` parts.
fn edge(number: u64, (min, max): Limits, step: u32) -> f64 {
    min + (number as f64 / (1u64 << step) as f64) * (max - min)
}

/// Returns the bits of a number, each with a zero above it.
fn spread(number: u64) -> u64 {
    (0..32).fold(0, |bits, bit| bits | (number >> bit & 1) << (2 * bit))
}

/// Returns every second bit.
fn gather(bits: u64) -> u64 {
    (0..32).fold(0, |number, bit| number | (bits >> (2 * bit) & 1) << bit)
}

impl Cell {
    /// Returns the cell that contains a point.
    pub(super) fn of(point: Point, step: u32) -> Cell {
        let column = number(point.longitude, LONGITUDES, step);
        Cell { step, column, row: number(point.latitude, LATITUDES, step) }
    }

    fn of_score(score: f64) -> Cell {
        let bits = (score as i64) as u64;
        Cell { step: STEPS, column: gather(bits >> 1), row: gather(bits) }
    }

    fn bits(self) -> u64 {
        spread(self.column) << 1 | spread(self.row)
    }

    /// Returns the range of the scores of the points in it: the first one, and the first one after
    /// them.
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = SCORE_BITS - 2 * self.step;
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }

    /// Returns the cell this many cells to the east and to the north; cells wrap around the Earth.
    ///
    /// As in Redis, a point on the eastern or northern limit is in a cell after the last one. A
    /// move along that axis wraps it into the range; a move by 0 keeps it there.
    pub(super) fn neighbour(self, east: i64, north: i64) -> Cell {
        let mask = (1u64 << self.step) - 1;
        let moved = |number: u64, by: i64| match by {
            0 => number,
            by => number.wrapping_add_signed(by) & mask,
        };
        Cell { column: moved(self.column, east), row: moved(self.row, north), ..self }
    }

    /// Returns its corners, south-west and north-east.
    pub(super) fn corners(self) -> (Point, Point) {
        let corner = |column, row| Point {
            longitude: edge(column, LONGITUDES, self.step),
            latitude: edge(row, LATITUDES, self.step),
        };
        (corner(self.column, self.row), corner(self.column + 1, self.row + 1))
    }
}

/// Returns the score of a point.
pub fn score_of(point: Point) -> u64 {
    Cell::of(point, STEPS).bits()
}

/// Returns the point that a score represents: the middle of its cell.
pub fn point_of(score: f64) -> Point {
    let (low, high) = Cell::of_score(score).corners();
    let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
    Point {
        longitude: middle(low.longitude, high.longitude, MAX_LONGITUDE),
        latitude: middle(low.latitude, high.latitude, MAX_LATITUDE),
    }
}

/// Returns the standard geohash of a score: eleven digits. The last one is always 0, since 52 bits
/// are ten digits and two bits.
pub fn geohash(score: f64) -> [u8; 11] {
    const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let Point { longitude, latitude } = point_of(score);
    let column = number(longitude, LONGITUDES, STEPS);
    let bits = Cell { step: STEPS, column, row: number(latitude, ALL_LATITUDES, STEPS) }.bits();
    std::array::from_fn(|digit| match (SCORE_BITS as usize).checked_sub(5 * (digit + 1)) {
        Some(shift) => DIGITS[(bits >> shift & 31) as usize],
        None => DIGITS[0],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geospatial_items_have_the_scores_and_geohashes_that_redis_gives_them() {
        let palermo = Point { longitude: 13.361389, latitude: 38.115556 };
        assert_eq!(score_of(palermo), 3_479_099_956_230_698);
        assert_eq!(&geohash(3_479_099_956_230_698.0), b"sqc8b49rny0");
        let found = point_of(3_479_099_956_230_698.0);
        assert_eq!(found.longitude, 13.361_389_338_970_184);
        assert_eq!(found.latitude, 38.115_556_395_496_3);
    }

    #[test]
    fn a_point_lies_in_the_cell_of_its_score() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let longitude = random.f64() * 360.0 - 180.0;
            let latitude = random.f64() * 170.0 - 85.0;
            let point = Point { longitude, latitude };
            let cell = Cell::of(point, random.u32(1..26));
            let ((min, max), score) = (cell.scores(), score_of(point) as f64);
            assert!(min <= score && score < max, "{point:?} {cell:?}");
            let ((low, high), found) = (cell.corners(), point_of(score));
            assert!(low.longitude <= found.longitude && found.longitude <= high.longitude);
            assert!(low.latitude <= found.latitude && found.latitude <= high.latitude);
            assert_eq!(cell.neighbour(1, -1).neighbour(-1, 1), cell);
        }
    }
}
