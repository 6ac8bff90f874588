//! Reads of bytes that another thread may be writing.
//!
//! A lookup that takes no lock, only to prefetch, follows words of the index as of some moment. The
//! blocks that it reaches may have been freed meanwhile, and another thread may be copying a value
//! into them with plain stores. In Rust's terms a read of such bytes, atomic or not, is a race with
//! those stores, and undefined. The language has no copy that tolerates a race yet (RFC 3301
//! proposes one). So these reads are instructions that are opaque to the compiler, like reads of a
//! device's registers: the code around them can rely only on the result being some number. The CPU
//! reads aligned words whole.
//!
//! The result only decides what to prefetch and where a lookup under the lock begins.
//!
//! The journal copies words that their thread has flushed, and pages for its checkpoints, in the
//! same way: another thread may be storing into words next to them, or into them. A CPU with AVX
//! loads 16 aligned bytes at once, any other CPU words.

use crate::cpu;
use crate::lines::LINE;
use crate::mapping::PAGE;
#[cfg(not(miri))]
use core::arch::asm;

/// Lines of a page.
const PAGE_LINES: usize = (PAGE / LINE) as usize;

/// Returns the word at an address as of some moment.
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

/// Copies words, each as it was at some moment.
///
/// # Safety
/// `from` is a multiple of 8; both ranges are mapped and do not overlap, and nobody else accesses
/// the destination.
#[inline]
pub(crate) unsafe fn copy_words(to: *mut u8, from: *const u64, words: usize) {
    const LINE_WORDS: usize = LINE as usize / size_of::<u64>();
    let to_line = from.addr().next_multiple_of(LINE as usize) - from.addr();
    let head = (to_line / size_of::<u64>()).min(words);
    let lines = (words - head) / LINE_WORDS;
    let rest = head + lines * LINE_WORDS;
    let to_word = |n: usize| to.cast::<u64>().wrapping_add(n);
    for n in (0..head).chain(rest..words) {
        // SAFETY: a word of the source (caller).
        let word = unsafe { word(from.wrapping_add(n)) };
        // SAFETY: bytes of the destination (caller).
        unsafe { to_word(n).write_unaligned(word) };
    }
    if lines > 0 {
        // SAFETY: whole lines of both ranges (caller).
        unsafe { copy_lines(to_word(head).cast(), from.wrapping_add(head).cast(), lines) };
    }
}

/// Copies whole lines, each word as it was at some moment.
///
/// # Safety
/// `from` is the start of a line; both ranges are mapped and do not overlap, and nobody else
/// accesses the destination.
#[inline]
unsafe fn copy_lines(to: *mut u8, from: *const u8, lines: usize) {
    for n in 0..lines {
        let line = n * LINE as usize;
        let (to, from) = (to.wrapping_add(line), from.wrapping_add(line));
        // The CPU reads ahead by itself, but not into the next page.
        if cfg!(not(miri)) && n + PAGE_LINES < lines {
            cpu::prefetch(from.wrapping_add(PAGE as usize));
        }
        // SAFETY: loads of a mapped line, which is aligned, and stores to mapped bytes (caller).
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        unsafe {
            asm!(
                "movdqa {a}, xmmword ptr [{from}]",
                "movdqa {b}, xmmword ptr [{from} + 16]",
                "movdqa {c}, xmmword ptr [{from} + 32]",
                "movdqa {d}, xmmword ptr [{from} + 48]",
                "movdqu xmmword ptr [{to}], {a}",
                "movdqu xmmword ptr [{to} + 16], {b}",
                "movdqu xmmword ptr [{to} + 32], {c}",
                "movdqu xmmword ptr [{to} + 48], {d}",
                to = in(reg) to, from = in(reg) from,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        for n in 0..LINE as usize / size_of::<u64>() {
            // SAFETY: a word of the line, which is aligned.
            let word = unsafe { word(from.cast::<u64>().wrapping_add(n)) };
            // SAFETY: bytes of the destination (caller).
            unsafe { to.cast::<u64>().wrapping_add(n).write_unaligned(word) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy_words;
    use crate::Region;

    #[test]
    fn words_are_copied_whole_and_nothing_around_them() {
        #[repr(align(64))]
        struct Lines([u8; 320]);
        let from = Lines(std::array::from_fn(|n| n as u8));
        for first in 0..=16 {
            for words in 0..=40 - first {
                let mut to = [0xee; 322];
                let bytes = &from.0[8 * first..8 * (first + words)];
                // SAFETY: both have that many words.
                unsafe { copy_words(to[1..].as_mut_ptr(), bytes.as_ptr().cast(), words) };
                let end = 1 + 8 * words;
                assert_eq!(to[1..end], *bytes);
                assert_eq!((to[0], to[end]), (0xee, 0xee));
            }
        }
    }

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
