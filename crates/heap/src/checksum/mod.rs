//! CRC-32C: of bytes (`crc`), and of two pieces from the sums of both (`combine`).

mod combine;
mod crc;

pub(crate) use combine::crc32c_joined;
pub use crc::{crc32c, crc32c_append};
