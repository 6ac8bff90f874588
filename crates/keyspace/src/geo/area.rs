//! Areas to search, and the cells that cover them.

use super::cell::{Cell, STEPS};
use super::point::Point;

/// An area to search.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its centre.
    pub centre: Point,
    /// Its shape around the centre.
    pub shape: Shape,
}

/// A shape around a centre. Lengths are in metres, 0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// The points within a distance of the centre.
    Circle {
        /// The maximum distance.
        radius: f64,
    },
    /// A box with sides along the parallels and meridians.
    Box {
        /// From west to east, measured at the latitude of the point that is tested.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// Half of the Earth's width on the Mercator map, in metres; Redis's value.
const HALF_MAP: f64 = 20_037_726.37;

/// A cell and those around it, in the order in which they are searched: (east, north).
const AROUND: [(i64, i64); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

impl Area {
    /// Returns the metres from the centre to a point in the area; `None` for a point outside it.
    pub(super) fn distance(&self, point: Point) -> Option<f64> {
        match self.shape {
            Shape::Circle { radius } => {
                Some(self.centre.distance(point)).filter(|distance| *distance <= radius)
            }
            Shape::Box { width, height } => {
                let level = Point { latitude: point.latitude, ..self.centre };
                let inside = point.distance_of_latitudes(self.centre) <= height / 2.0
                    && point.distance(level) <= width / 2.0;
                inside.then(|| self.centre.distance(point))
            }
        }
    }

    /// Returns the metres from the centre to the farthest point of the area.
    fn reach(&self) -> f64 {
        match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => (width / 2.0).hypot(height / 2.0),
        }
    }

    fn corners(&self) -> (Point, Point) {
        match self.shape {
            Shape::Circle { radius } => self.centre.surroundings(radius, radius),
            Shape::Box { width, height } => self.centre.surroundings(width / 2.0, height / 2.0),
        }
    }

    /// Returns the number of halvings after which, in most cases, the cell of the centre and those
    /// around it still cover the area.
    fn steps(&self) -> u32 {
        let mut reach = self.reach();
        if reach == 0.0 {
            return STEPS;
        }
        let mut step = 1i32;
        while reach < HALF_MAP {
            reach *= 2.0;
            step += 1;
        }
        // Cells are narrower towards the poles.
        let narrow = i32::from(self.centre.latitude.abs() > 66.0)
            + i32::from(self.centre.latitude.abs() > 80.0);
        (step - 2 - narrow).clamp(1, STEPS as i32) as u32
    }

    /// Returns the cells that cover the area. A cell may be returned twice if cells are so large
    /// that they meet on the other side of the Earth.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let (low, high) = self.corners();
        let mut cell = Cell::of(self.centre, self.steps());
        let covers = |cell: Cell| {
            let side = |east, north| cell.neighbour(east, north).corners();
            side(0, 1).1.latitude >= high.latitude
                && side(0, -1).0.latitude <= low.latitude
                && side(1, 0).1.longitude >= high.longitude
                && side(-1, 0).0.longitude <= low.longitude
        };
        if cell.step > 1 && !covers(cell) {
            cell = Cell::of(self.centre, cell.step - 1);
        }
        let (south_west, north_east) = cell.corners();
        let is_needed = |(east, north): (i64, i64)| {
            cell.step < 2
                || !(north < 0 && south_west.latitude < low.latitude
                    || north > 0 && north_east.latitude > high.latitude
                    || east < 0 && south_west.longitude < low.longitude
                    || east > 0 && north_east.longitude > high.longitude)
        };
        let mut cells: Vec<Cell> = AROUND
            .into_iter()
            .filter(|side| is_needed(*side))
            .map(|(east, north)| cell.neighbour(east, north))
            .collect();
        cells.dedup();
        cells
    }
}
