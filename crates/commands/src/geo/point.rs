//! Points on the Earth, distances between them, and units.

use crate::call::Call;
use crate::failure::{Failure, NOT_FLOAT};

/// In metres; Redis's value.
pub(super) const EARTH_RADIUS: f64 = 6_372_797.560856;
/// The limits of what has a score, in degrees.
pub(super) const MAX_LONGITUDE: f64 = 180.0;
pub(super) const MAX_LATITUDE: f64 = 85.05112878;

/// A point, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// Radians, as the product that Redis computes.
fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

impl Point {
    /// The point that two arguments name.
    pub(super) fn parse(call: &Call<'_>, at: usize) -> Result<Point, Failure> {
        let number = |at| resp::number::parse_f64(call.arg(at)?).ok_or(Failure::from(NOT_FLOAT));
        let (longitude, latitude): (f64, f64) = (number(at)?, number(at + 1)?);
        let is_valid = longitude.abs() <= MAX_LONGITUDE && latitude.abs() <= MAX_LATITUDE;
        if !is_valid {
            let pair = format!("{longitude:.6},{latitude:.6}");
            return Err(Failure::text(format!("ERR invalid longitude,latitude pair {pair}")));
        }
        Ok(Point { longitude, latitude })
    }

    /// Metres to another point, along a great circle.
    pub(super) fn distance(self, other: Point) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return self.distance_of_latitudes(other);
        }
        let (own, its) = (radians(self.latitude), radians(other.latitude));
        let u = ((its - own) / 2.0).sin();
        let a = u * u + own.cos() * its.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// Metres to the other's latitude.
    pub(super) fn distance_of_latitudes(self, other: Point) -> f64 {
        EARTH_RADIUS * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    /// The corners, south-west and north-east, of what is within so many metres to each side.
    pub(super) fn surroundings(self, width: f64, height: f64) -> (Point, Point) {
        let latitudes = (height / EARTH_RADIUS).to_degrees();
        // The side that is nearer to a pole is the wider one.
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

/// How many metres the unit that an argument names has.
pub(super) fn unit(word: &[u8]) -> Result<f64, Failure> {
    match word.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}
