//! Points on the Earth, and distances between them.

/// The Earth's radius in metres; Redis's value.
const EARTH_RADIUS: f64 = 6_372_797.560856;
/// The limits of the coordinates that have a score, in degrees.
pub(super) const MAX_LONGITUDE: f64 = 180.0;
pub(super) const MAX_LATITUDE: f64 = 85.05112878;

/// A point, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// East of Greenwich, -180 to 180.
    pub longitude: f64,
    /// North of the equator, -85.05112878 to 85.05112878: points nearer to a pole have no score.
    pub latitude: f64,
}

/// Returns radians, as the product that Redis computes.
fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

impl Point {
    /// Returns true if it has a score.
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= MAX_LONGITUDE && self.latitude.abs() <= MAX_LATITUDE
    }

    /// Returns the metres to another point, along a great circle.
    pub fn distance(self, other: Point) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return self.distance_of_latitudes(other);
        }
        let (own, its) = (radians(self.latitude), radians(other.latitude));
        let u = ((its - own) / 2.0).sin();
        let a = u * u + own.cos() * its.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// Returns the metres to the other point's latitude.
    pub(super) fn distance_of_latitudes(self, other: Point) -> f64 {
        EARTH_RADIUS * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    /// Returns the south-west and north-east corners of the surroundings: this many metres to each
    /// side.
    pub(super) fn surroundings(self, width: f64, height: f64) -> (Point, Point) {
        let latitudes = (height / EARTH_RADIUS).to_degrees();
        // The side nearer to a pole spans more degrees of longitude.
        let edge =
            if self.latitude < 0.0 { self.latitude - latitudes } else { self.latitude + latitudes };
        let longitudes = (width / EARTH_RADIUS / radians(edge).cos()).to_degrees();
        let corner = |sign: f64| Point {
            longitude: self.longitude + sign * longitudes,
            latitude: self.latitude + sign * latitudes,
        };
        (corner(-1.0), corner(1.0))
    }
}
