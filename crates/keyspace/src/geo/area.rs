//! Areas that are searched, and the cells that cover them.

use super::cell::{Cell, STEPS};
use super::point::Point;

/// Where a search looks.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its centre.
    pub centre: Point,
    /// What is around the centre.
    pub shape: Shape,
}

/// A shape around a centre. Lengths are in metres, 0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Within a distance of the centre.
    Circle {
        /// The greatest distance.
        radius: f64,
    },
    /// A box along the parallels and meridians.
    Box {
        /// From west to east, on the latitude of what is looked at.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// Half of the Earth's width on the map whose cells these are, in metres.
const HALF_MAP: f64 = 20_037_726.37;

/// The cells around one, in the order in which they are searched: (east, north).
const AROUND: [(i64, i64); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

impl Area {
    /// Metres from the centre to a point in the area; `None` for one outside.
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

    /// Metres from the centre to the farthest point.
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

    /// This many halvings make cells of which the centre's and those around it cover the area, in
    /// most cases.
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

    /// Returns the cells that cover it, some of them twice where they are so large that they meet
    /// after the Earth.
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
