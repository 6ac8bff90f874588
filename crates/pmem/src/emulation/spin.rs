//! Waits for nanoseconds by the CPU's time-stamp counter, whose rate is calibrated once.
//!
//! A thread's charges become its debt, and the time that the emulation itself took, for looking
//! lines up, pays for it. Only a large enough debt is spun off; a thread that paid more than its
//! debt has a little credit.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The smallest debt for which it pays to spin.
const LEAST_PS: i64 = 50_000;
/// The maximum credit of a thread.
const CREDIT_PS: i64 = 1_000_000;

thread_local! {
    static DEBT_PS: Cell<i64> = const { Cell::new(0) };
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: the instruction has no operands and changes no memory; every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Without a cheap and known counter: nanoseconds of the system's clock.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Picoseconds of a tick, times 1024.
fn ps_of_1024_ticks() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (begin, from) = (Instant::now(), ticks());
        while begin.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (took, ticks) = (begin.elapsed(), (ticks() - from).max(1));
        (took.as_nanos() * 1000 * 1024 / u128::from(ticks)).max(1) as u64
    })
}

fn ps(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(ps_of_1024_ticks())) >> 10) as u64
}

/// Returns the time since some fixed moment, in picoseconds.
pub(super) fn now_ps() -> u64 {
    ps(ticks())
}

/// Returns the time at which the emulation's own work begins.
pub(super) fn begin() -> u64 {
    ticks()
}

/// Charges the calling thread with this many picoseconds; the time since `begin` has already been
/// paid.
pub(super) fn pay(begin: u64, charge: u64) {
    let paid = ps(ticks().wrapping_sub(begin)) as i64;
    let debt = (DEBT_PS.get() + charge as i64 - paid).max(-CREDIT_PS);
    if debt < LEAST_PS {
        return DEBT_PS.set(debt);
    }
    let from = ticks();
    loop {
        let spun = ps(ticks().wrapping_sub(from)) as i64;
        if spun >= debt {
            return DEBT_PS.set((debt - spun).max(-CREDIT_PS));
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_charged_is_waited_for() {
        pay(begin(), 0);
        let start = Instant::now();
        (0..1000).for_each(|_| pay(begin(), 2_000_000));
        let took = start.elapsed();
        assert!(took >= Duration::from_micros(1900), "2 ms were charged, {took:?} passed");
    }

    #[test]
    fn small_charges_add_up() {
        pay(begin(), 0);
        let start = Instant::now();
        (0..200_000).for_each(|_| pay(begin(), 10_000));
        let took = start.elapsed();
        assert!(took >= Duration::from_micros(1900), "2 ms were charged, {took:?} passed");
    }
}
