//! Arguments that name points and units.

use engine::call::Call;
use engine::failure::{Failure, NOT_FLOAT};
use keyspace::geo::Point;

/// Returns the point that two arguments name.
pub(super) fn point(call: &Call<'_>, at: usize) -> Result<Point, Failure> {
    let number = |at| resp::number::parse_f64(call.arg(at)?).ok_or(Failure::from(NOT_FLOAT));
    let point = Point { longitude: number(at)?, latitude: number(at + 1)? };
    if !point.is_valid() {
        let pair = format!("{:.6},{:.6}", point.longitude, point.latitude);
        return Err(Failure::text(format!("ERR invalid longitude,latitude pair {pair}")));
    }
    Ok(point)
}

/// Returns the number of metres in a unit.
pub(super) fn unit(word: &[u8]) -> Result<f64, Failure> {
    match word.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}
