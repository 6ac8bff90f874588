//! Reports to the server's supervisor: to systemd, by messages to `NOTIFY_SOCKET`.
//!
//! The server reports when it serves, what it does until then and at its end, and, with
//! `WatchdogSec` in its unit, that it still works. The sign of that is a round of the housekeeping
//! thread, which the probe `/healthz` relies on too. Long commands are no reason to end a server,
//! so workers give no sign.
//!
//! As in Redis, the server reports only if the directive `supervised` asks for it.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::config::Values;
use crate::config::choice::Supervised;

/// How often the progress of loading is reported.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The connection to the supervisor, and the server's last sign.
pub(crate) struct Supervisor {
    is_systemd: bool,
    /// The supervisor expects a sign within this time.
    watchdog: Option<Duration>,
    /// The last round of housekeeping, or the start, in milliseconds.
    last_round_ms: AtomicU64,
    /// When the watchdog got its last sign, or the progress was last reported.
    last_report: Mutex<Option<Duration>>,
}

impl Supervisor {
    /// Returns the supervisor that the directive `supervised` names, if it is there, and reports
    /// that the store is being opened.
    pub(crate) fn of(values: &Values, now: Duration) -> Supervisor {
        let has_socket = std::env::var_os("NOTIFY_SOCKET").is_some();
        let is_systemd = match values.supervised {
            Supervised::Systemd => {
                if !has_socket {
                    tracing::warn!("supervised systemd: there is no NOTIFY_SOCKET to report to");
                }
                has_socket
            }
            Supervised::Auto => has_socket,
            Supervised::Upstart => {
                tracing::warn!("supervised upstart has no effect: upstart is not supported");
                false
            }
            Supervised::No => false,
        };
        let supervisor = Supervisor {
            is_systemd,
            watchdog: sd_notify::watchdog_enabled().filter(|_| is_systemd),
            last_round_ms: AtomicU64::new(now.as_millis() as u64),
            last_report: Mutex::new(None),
        };
        supervisor.status("Opening the store");
        supervisor
    }

    /// Returns the supervisor's name for INFO.
    pub(crate) fn name(&self) -> &'static str {
        if self.is_systemd { "systemd" } else { "no" }
    }

    fn notify(&self, states: &[NotifyState<'_>]) {
        if self.is_systemd
            && let Err(error) = sd_notify::notify(states)
        {
            tracing::debug!("systemd could not be notified: {error}");
        }
    }

    /// Reports the server's present activity.
    pub(crate) fn status(&self, text: &str) {
        self.notify(&[NotifyState::Status(text)]);
    }

    /// Reports that the server serves.
    pub(crate) fn ready(&self) {
        self.notify(&[NotifyState::Ready, NotifyState::Status("Ready to accept connections")]);
    }

    /// Reports that the server is ending.
    pub(crate) fn stopping(&self) {
        self.notify(&[NotifyState::Stopping, NotifyState::Status("Closing the store")]);
    }

    /// Reports the progress of loading, once a second.
    pub(crate) fn loading(&self, done: u64, total: u64, now: Duration) {
        if self.is_due(PROGRESS_EVERY, now) {
            let share = done as f64 * 100.0 / total.max(1) as f64;
            self.status(&format!("Loading data: {share:.1} %"));
        }
    }

    /// Records a round of housekeeping, and gives the watchdog its sign.
    pub(crate) fn record_round(&self, now: Duration) {
        self.last_round_ms.store(now.as_millis() as u64, Relaxed);
        // Twice as often as necessary, as systemd advises.
        if let Some(watchdog) = self.watchdog
            && self.is_due(watchdog / 2, now)
        {
            self.notify(&[NotifyState::Watchdog]);
        }
    }

    /// Returns how long ago the last round of housekeeping was.
    pub(crate) fn since_last_round(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.last_round_ms.load(Relaxed)))
    }

    fn is_due(&self, period: Duration, now: Duration) -> bool {
        let mut last = self.last_report.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_sub(last) >= period);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
