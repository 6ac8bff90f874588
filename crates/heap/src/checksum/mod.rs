//! CRC-32C: of bytes (`crc`), and of two pieces from the checksums of both (`combine`).

mod combine;
mod crc;

pub use combine::crc32c_combine;
pub use crc::{crc32c, crc32c_append, crc32c_six_bytes, crc32c_words};
