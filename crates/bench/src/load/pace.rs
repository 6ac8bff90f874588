//! Pacing: when requests are due at a limited rate.
//!
//! Requests are due at even intervals, whatever the server does. If a request cannot be sent on
//! time because replies are outstanding, it is sent later, and its latency still counts from when
//! it was due. Otherwise a server that stalls would get fewer requests and look better than it is
//! (coordinated omission).
//!
//! The runtime's own timers tick in milliseconds; a kernel timer is as precise as a sleep can be.

use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// The times at which the requests of one connection are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    began: Instant,
    rate: u64,
    next: u64,
}

impl Schedule {
    /// Returns a schedule of `rate` requests a second, the first of them at `began`.
    pub(crate) fn new(began: Instant, rate: u64) -> Schedule {
        Schedule { began, rate, next: 0 }
    }

    /// Returns when the next request is due.
    pub(crate) fn due(&self) -> Instant {
        // Integer arithmetic, so that no rounding error accumulates over a long run.
        let (seconds, rest) = (self.next / self.rate, self.next % self.rate);
        let nanos = u128::from(rest) * 1_000_000_000 / u128::from(self.rate);
        self.began + Duration::new(seconds, nanos as u32)
    }

    /// Advances to the next request.
    pub(crate) fn take(&mut self) {
        self.next += 1;
    }

    /// Returns how many requests are due and not taken.
    pub(crate) fn overdue(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.began).as_nanos();
        let due = elapsed * u128::from(self.rate) / 1_000_000_000 + 1;
        (due as u64).saturating_sub(self.next)
    }
}

/// A timer that wakes a task.
#[derive(Debug)]
pub(crate) struct Timer {
    file: AsyncFd<OwnedFd>,
    set_for: Option<Instant>,
}

impl Timer {
    /// Returns a timer of the current runtime.
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe, for files that are closed too early"
    )]
    pub(crate) fn new() -> std::io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer { file: AsyncFd::new(file)?, set_for: None })
    }

    /// Polls until `due`.
    pub(crate) fn poll(
        &mut self,
        due: Instant,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let now = Instant::now();
        if due <= now {
            return Poll::Ready(Ok(()));
        }
        if self.set_for != Some(due) {
            let left = due - now;
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let once = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(self.file.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            self.set_for = Some(due);
        }
        loop {
            let mut guard = ready!(self.file.poll_read_ready(context))?;
            let mut expirations = [0; 8];
            match rustix::io::read(guard.get_inner(), &mut expirations) {
                Ok(_) => {
                    self.set_for = None;
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(e) => return Poll::Ready(Err(e.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_even_distances() {
        let began = Instant::now();
        let mut schedule = Schedule::new(began, 3);
        let mut due = Vec::new();
        for _ in 0..7 {
            due.push(schedule.due().duration_since(began).as_millis());
            schedule.take();
        }
        assert_eq!(due, [0, 333, 666, 1000, 1333, 1666, 2000]);
    }

    #[test]
    fn what_was_not_taken_is_overdue() {
        let began = Instant::now();
        let mut schedule = Schedule::new(began, 100);
        assert_eq!(schedule.overdue(began), 1);
        schedule.take();
        assert_eq!(schedule.overdue(began), 0);
        assert_eq!(schedule.overdue(began + Duration::from_millis(50)), 5);
    }

    #[test]
    fn a_day_at_an_odd_rate_does_not_drift() {
        let began = Instant::now();
        let mut schedule = Schedule::new(began, 7);
        schedule.next = 7 * 86_400;
        assert_eq!(schedule.due(), began + Duration::from_secs(86_400));
    }

    #[test]
    fn a_timer_wakes_when_it_should() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut timer = Timer::new().expect("a timer");
            for micros in [300, 5000, 0] {
                let due = Instant::now() + Duration::from_micros(micros);
                let waited = std::future::poll_fn(|context| timer.poll(due, context)).await;
                waited.expect("a timer works");
                assert!(Instant::now() >= due);
            }
        });
    }
}
