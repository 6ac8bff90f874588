//! The CPU's instructions: write a line back, order the write-backs.
//!
//! x86-64 has three write-backs. `clwb` keeps the line cached and is unordered, `clflushopt` evicts
//! it and is unordered, `clflush` evicts it and waits. CPUID tells at run time which ones exist.
//! aarch64 has `dc cvap` (to the point of persistence) if the core implements it, else `dc cvac`,
//! which on such a machine reaches as far. An unordered write-back is complete after the next
//! `sfence` or `dsb` of the same thread.
//!
//! A write-back covers the CPU's cache line that contains an address, and one instruction is used
//! for [`LINE`] bytes: so a CPU with shorter lines is refused ([`line_len`]). No x86-64 CPU has
//! shorter lines, and longer lines do no harm.

use crate::lines::LINE;

/// How a line is written back to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each architecture constructs its own instructions only")]
pub(crate) enum WriteBack {
    Clwb,
    ClflushOpt,
    Clflush,
    DcCvap,
    DcCvac,
}

impl WriteBack {
    pub(crate) fn name(self) -> &'static str {
        match self {
            WriteBack::Clwb => "clwb",
            WriteBack::ClflushOpt => "clflushopt",
            WriteBack::Clflush => "clflush",
            WriteBack::DcCvap => "dc cvap",
            WriteBack::DcCvac => "dc cvac",
        }
    }
}

/// Asks the CPU to load the line in which a value begins.
#[inline]
pub fn prefetch_value<T>(at: &T) {
    prefetch(std::ptr::from_ref(at).cast());
}

/// Writes back `count` lines from `first`, with the best instruction there is.
///
/// # Safety
/// The lines are mapped.
#[inline]
pub(crate) unsafe fn write_back(how: WriteBack, first: *const u8, count: usize) {
    let mut line = first;
    for _ in 0..count {
        // SAFETY: the caller guarantees that each of the `count` lines is mapped.
        unsafe { arch::write_back(how, line) };
        line = line.wrapping_add(LINE as usize);
    }
}

pub(crate) use arch::{detect, fence, line_len, prefetch};

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::WriteBack;
    use core::arch::{asm, x86_64};
    use std::sync::OnceLock;

    /// Queries the CPU's features.
    #[allow(unused_unsafe, reason = "older compilers call this unsafe, newer ones do not")]
    fn cpuid(leaf: u32) -> x86_64::CpuidResult {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { x86_64::__cpuid_count(leaf, 0) }
    }

    /// Returns the best write-back of this CPU, which is asked once: on a virtual machine that
    /// takes tens of microseconds.
    pub(crate) fn detect() -> WriteBack {
        static FOUND: OnceLock<WriteBack> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let highest = cpuid(0).eax;
            from_cpuid(if highest < 7 { 0 } else { cpuid(7).ebx })
        })
    }

    /// Chooses by EBX of CPUID leaf 7.
    pub(super) fn from_cpuid(features: u32) -> WriteBack {
        const CLFLUSHOPT: u32 = 1 << 23;
        const CLWB: u32 = 1 << 24;
        if features & CLWB != 0 {
            WriteBack::Clwb
        } else if features & CLFLUSHOPT != 0 {
            WriteBack::ClflushOpt
        } else {
            WriteBack::Clflush
        }
    }

    /// Returns the number of bytes that one write-back covers.
    pub(crate) fn line_len() -> u64 {
        crate::lines::LINE
    }

    #[inline]
    pub(super) unsafe fn write_back(how: WriteBack, line: *const u8) {
        match how {
            // SAFETY: the line is mapped (caller); the instruction changes no register and no
            // value.
            WriteBack::Clwb => unsafe {
                asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: as above.
            WriteBack::ClflushOpt => unsafe {
                asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: the line is mapped (caller); SSE2 is part of x86-64.
            _ => unsafe { x86_64::_mm_clflush(line) },
        }
    }

    /// Orders this thread's write-backs and non-temporal stores before its later operations.
    #[inline]
    pub(crate) fn fence() {
        // SAFETY: a fence has no operands; SSE is part of x86-64.
        unsafe { x86_64::_mm_sfence() };
    }

    #[inline]
    pub(crate) fn prefetch(at: *const u8) {
        // SAFETY: a prefetch of any address is harmless; SSE is part of x86-64.
        unsafe { x86_64::_mm_prefetch::<{ x86_64::_MM_HINT_T0 }>(at.cast()) };
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::WriteBack;
    use core::arch::asm;

    /// Returns the best write-back of this CPU.
    pub(crate) fn detect() -> WriteBack {
        if std::arch::is_aarch64_feature_detected!("dpb") {
            WriteBack::DcCvap
        } else {
            WriteBack::DcCvac
        }
    }

    /// Returns the number of bytes that one write-back covers: the shortest line of any data cache,
    /// which the register gives as a power of two of four-byte words (`CTR_EL0.DminLine`).
    pub(crate) fn line_len() -> u64 {
        let ctr: u64;
        // SAFETY: the register is read only; the kernel lets programs read it, or emulates it.
        unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
        4 << (ctr >> 16 & 0xf)
    }

    #[inline]
    pub(super) unsafe fn write_back(how: WriteBack, line: *const u8) {
        match how {
            // SAFETY: the line is mapped (caller). `dc cvap`, by its encoding: the assembler knows
            // the name from ARMv8.2 on only.
            WriteBack::DcCvap => unsafe {
                asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: the line is mapped (caller).
            _ => unsafe {
                asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags));
            },
        }
    }

    /// Waits until this thread's write-backs are complete.
    #[inline]
    pub(crate) fn fence() {
        // SAFETY: a barrier has no operands and changes no value.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    #[inline]
    pub(crate) fn prefetch(at: *const u8) {
        // SAFETY: a prefetch of any address is harmless.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn cpuid_picks_the_best_write_back() {
        let check = |features: u32, expect| assert_eq!(arch::from_cpuid(features), expect);
        check(0, WriteBack::Clflush);
        check(1 << 23, WriteBack::ClflushOpt);
        check(1 << 24, WriteBack::Clwb);
        check(1 << 23 | 1 << 24, WriteBack::Clwb);
    }

    #[test]
    fn the_detected_write_back_and_fence_run_and_change_nothing() {
        #[repr(align(64))]
        struct Lines([u8; 256]);
        let lines = Lines([7; 256]);
        // SAFETY: the four lines are the array.
        unsafe { write_back(detect(), lines.0.as_ptr(), 4) };
        fence();
        prefetch(lines.0.as_ptr());
        assert_eq!(lines.0, [7; 256]);
    }

    #[test]
    fn a_line_has_a_length_that_lines_have() {
        assert!(matches!(line_len(), 16..=2048 if line_len().is_power_of_two()), "{}", line_len());
    }

    #[test]
    fn the_older_write_back_runs_too() {
        let older =
            if cfg!(target_arch = "x86_64") { WriteBack::Clflush } else { WriteBack::DcCvac };
        let line = [1u8; 64];
        // SAFETY: the line that holds the first byte is mapped.
        unsafe { write_back(older, line.as_ptr(), 1) };
        fence();
        assert_eq!(line, [1; 64]);
    }
}
