//! The end of the server: requested by a signal or a command, carried out by the main thread.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// How to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) save: bool,
    pub(crate) nosave: bool,
    pub(crate) now: bool,
    pub(crate) force: bool,
}

impl Request {
    /// Returns the request of a directive (`shutdown-on-sigterm`).
    pub(crate) fn of(flags: &str) -> Request {
        let has = |flag: &str| flags.split(' ').any(|word| word == flag);
        Request { save: has("save"), nosave: has("nosave"), now: has("now"), force: has("force") }
    }
}

/// The request to end, shared by all threads.
#[derive(Default)]
pub(crate) struct Shutdown {
    request: Mutex<Option<Request>>,
    asked: Notify,
    failed: AtomicBool,
}

impl Shutdown {
    /// Requests the end; the first request counts.
    pub(crate) fn request(&self, request: Request) {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(request);
        self.asked.notify_one();
    }

    /// Requests the end because the data cannot be loaded: the last line of the log has the reason.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.request(Request::default());
    }

    /// Returns true if the data could not be loaded.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns true if the end was requested.
    pub(crate) fn is_asked(&self) -> bool {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns the request, if there is one.
    pub(crate) fn get(&self) -> Option<Request> {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the request to end.
    pub(crate) async fn asked(&self) -> Request {
        loop {
            if let Some(request) = *self.request.lock().unwrap_or_else(PoisonError::into_inner) {
                return request;
            }
            self.asked.notified().await;
        }
    }
}
