//! Reads of bytes that another thread may be writing.
//!
//! A lookup that takes no lock, to tell the processor what to load, follows words of the index of
//! some moment. The blocks that it comes to may have been freed meanwhile, and another thread may
//! be copying a value into them, with plain stores. In Rust's terms a read of such bytes, atomic or
//! not, is a race with those stores, and undefined. The language has no copy that may be raced with
//! yet (RFC 3301 proposes one). So these reads are instructions that the compiler does not see
//! into, as a device's registers are read: what it makes of the code around them can depend on
//! nothing but that the answer is some number. The processor gives whole aligned words.
//!
//! The answer decides nothing but what to prefetch and where a lookup under the lock begins.

#[cfg(not(miri))]
use core::arch::asm;

/// Returns the word at an address, as of some moment.
///
/// # Safety
/// The address is a multiple of 8 and mapped.
#[inline]
pub(crate) unsafe fn word(at: *const u64) -> u64 {
    let word: u64;
    // SAFETY: a load of mapped bytes (caller), which changes nothing but the register.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        asm!("mov {}, qword ptr [{}]", lateout(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        asm!("ldr {}, [{}]", lateout(reg) word, in(reg) at,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: mapped and aligned (caller). Miri runs no instructions, and sees such a race.
    #[cfg(miri)]
    unsafe {
        word =
            (*at.cast::<std::sync::atomic::AtomicU64>()).load(std::sync::atomic::Ordering::Relaxed);
    }
    word
}

#[cfg(test)]
mod tests {
    use crate::Region;

    #[test]
    fn a_guess_is_what_is_there_and_nothing_where_nothing_is() {
        let region = Region::anonymous(4096).unwrap();
        region.grow(4096).unwrap();
        // SAFETY: nobody else has the region.
        unsafe { region.write(64, &[7; 64]) };
        assert_eq!(region.guess(72), u64::from_ne_bytes([7; 8]));
        assert_eq!(region.guess_line(64), [u64::from_ne_bytes([7; 8]); 8]);
        for off in [1, 76, 4096, 4092, u64::MAX, u64::MAX - 7] {
            assert_eq!((region.guess(off), region.guess_line(off)), (0, [0; 8]), "{off}");
        }
        assert_eq!(region.guess_line(8), [0; 8]);
        assert_eq!(region.faults(), 0);
    }
}
