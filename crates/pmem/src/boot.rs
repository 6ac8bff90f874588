//! Which boot of the machine this is: memory that only outlives a process must not be trusted after
//! another boot.

use std::fs;
use std::hash::{BuildHasher, RandomState};

/// Returns the present boot of the machine. If the kernel does not report it, returns a random one,
/// which is no boot that was ever recorded.
pub fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    parse(&text).unwrap_or_else(|| {
        let random = RandomState::new();
        let words = [random.hash_one(0), random.hash_one(1)];
        std::array::from_fn(|i| words[i / 8].to_le_bytes()[i % 8])
    })
}

/// Returns the 16 bytes of a boot id from the kernel's text.
fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let whole = digits.len() == 32 && digits.iter().any(|digit| *digit != 0);
    whole.then(|| std::array::from_fn(|i| digits[2 * i] << 4 | digits[2 * i + 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_that_cannot_be_read_is_none() {
        let id = parse("01234567-89ab-cdef-0123-456789abcdef\n").expect("an id");
        assert_eq!(id[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        for unreadable in ["", "0123", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(parse(unreadable), None, "{unreadable:?}");
        }
    }
}
