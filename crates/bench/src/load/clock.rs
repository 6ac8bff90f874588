//! The CPU time of the calling thread.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time that a thread used, and the time that it waited for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// CPU time.
    pub(crate) cpu: Duration,
    /// Time in which the thread was runnable but had no CPU.
    waited: Duration,
}

impl Spent {
    /// Returns the CPU time and the waiting time of the calling thread since it started.
    pub(crate) fn now() -> Spent {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32);
        Spent { cpu, waited: waited().unwrap_or_default() }
    }

    /// Returns the difference from an earlier reading.
    pub(crate) fn since(self, earlier: Spent) -> Spent {
        let waited = self.waited.saturating_sub(earlier.waited);
        Spent { cpu: self.cpu.saturating_sub(earlier.cpu), waited }
    }

    /// Returns the share of the elapsed time that the thread ran, leaving out the time that it
    /// waited for a CPU.
    pub(crate) fn busy(self, elapsed: Duration) -> f64 {
        let could = elapsed.saturating_sub(self.waited).max(self.cpu).as_secs_f64();
        if could > 0.0 { self.cpu.as_secs_f64() / could } else { 0.0 }
    }
}

/// Returns the second number of the thread's `schedstat`, in nanoseconds; `None` if the kernel does
/// not have it.
fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_thread_that_computes_is_busy_and_one_that_sleeps_is_not() {
        let measure = |work: fn(Duration)| {
            let (began, before) = (Instant::now(), Spent::now());
            work(Duration::from_millis(100));
            Spent::now().since(before).busy(began.elapsed())
        };
        let compute = |time| {
            let began = Instant::now();
            while began.elapsed() < time {}
        };
        // Neither number contains the time that a hypervisor takes away, so several measurements
        // are made and one of them has to pass.
        assert!((0..20).any(|_| measure(compute) > 0.8), "never busy");
        assert!((0..20).any(|_| measure(std::thread::sleep) < 0.2), "always busy");
    }

    /// With two of four seconds on the CPU and two in its queue, the thread was never idle.
    #[test]
    fn waiting_for_a_cpu_is_not_idleness() {
        let spent = Spent { cpu: Duration::from_secs(2), waited: Duration::from_secs(2) };
        assert_eq!(spent.busy(Duration::from_secs(4)), 1.0);
        assert_eq!(spent.busy(Duration::from_secs(6)), 0.5);
    }
}
