//! The checksum after a dump: Jones's CRC64, reflected, beginning with zero.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// A checksum that grows with what is read or written.
pub(crate) type Checksum = Digest<'static, u64, Table<16>>;

/// Begins a checksum.
pub(crate) fn begin() -> Checksum {
    CRC.digest()
}

/// Returns the checksum of these bytes.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    CRC.checksum(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_one_that_redis_uses() {
        assert_eq!(super::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
