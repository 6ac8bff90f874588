//! Polygons to search, on the plane of longitude and latitude, as in Valkey 9.

use super::area::{Area, Shape};
use super::point::Point;

/// A polygon of three vertices or more.
#[derive(Clone, Debug)]
pub struct Polygon {
    vertices: Vec<Point>,
}

impl Polygon {
    /// Returns the polygon with these vertices; `None` if there are fewer than three.
    pub fn new(vertices: Vec<Point>) -> Option<Polygon> {
        (vertices.len() >= 3).then_some(Polygon { vertices })
    }

    /// Returns the mean of its vertices, from which distances are measured.
    pub fn centre(&self) -> Point {
        let count = self.vertices.len() as f64;
        let sum = |of: fn(&Point) -> f64| self.vertices.iter().map(of).sum::<f64>() / count;
        Point { longitude: sum(|p| p.longitude), latitude: sum(|p| p.latitude) }
    }

    /// Returns the metres from its centre to a point within it; `None` for a point outside it.
    pub(super) fn distance(&self, point: Point) -> Option<f64> {
        self.contains(point).then(|| self.centre().distance(point))
    }

    /// Returns true if a ray from the point to the east crosses an odd number of edges.
    fn contains(&self, point: Point) -> bool {
        let ends = self.vertices.iter().cycle().skip(1);
        let crossed = self.vertices.iter().zip(ends).filter(|(a, b)| {
            let spans = (a.latitude > point.latitude) != (b.latitude > point.latitude);
            let slope = (b.longitude - a.longitude) / (b.latitude - a.latitude);
            spans && point.longitude < slope * (point.latitude - a.latitude) + a.longitude
        });
        crossed.count() % 2 == 1
    }

    /// Returns an area that covers the polygon.
    pub fn surroundings(&self) -> Area {
        let range = |of: fn(&Point) -> f64| {
            let values = self.vertices.iter().map(of);
            values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (west, east) = range(|p| p.longitude);
        let (south, north) = range(|p| p.latitude);
        let centre = Point { longitude: (west + east) / 2.0, latitude: (south + north) / 2.0 };
        // The circle reaches the farthest of the corners and of the middles of the west and east
        // sides, since the box may be wider between its corners than at them.
        let corners = [(west, south), (west, north), (east, south), (east, north)];
        let corners = corners.into_iter().chain([(west, centre.latitude), (east, centre.latitude)]);
        let far = corners
            .map(|(longitude, latitude)| centre.distance(Point { longitude, latitude }))
            .fold(0.0, f64::max);
        Area { centre, shape: Shape::Circle { radius: far * 1.01 + 1.0 } }
    }
}
