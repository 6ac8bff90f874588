//! How the server comes to its end: asked for by a signal or a command, done by the main thread.

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
    /// Returns the request that a directive states (`shutdown-on-sigterm`).
    pub(crate) fn of(flags: &str) -> Request {
        let has = |flag: &str| flags.split(' ').any(|word| word == flag);
        Request { save: has("save"), nosave: has("nosave"), now: has("now"), force: has("force") }
    }
}

/// The wish to end, shared by all.
#[derive(Default)]
pub(crate) struct Shutdown {
    request: Mutex<Option<Request>>,
    asked: Notify,
    failed: AtomicBool,
}

impl Shutdown {
    /// Asks for the end; the first request counts.
    pub(crate) fn request(&self, request: Request) {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(request);
        self.asked.notify_one();
    }

    /// Asks for the end since the data cannot be loaded: the log has the reason as its last line.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.request(Request::default());
    }

    /// Returns true if the data could not be loaded.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns true if the end was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns how to end, where that was asked for.
    pub(crate) fn get(&self) -> Option<Request> {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the end was asked for.
    pub(crate) async fn asked(&self) -> Request {
        loop {
            if let Some(request) = *self.request.lock().unwrap_or_else(PoisonError::into_inner) {
                return request;
            }
            self.asked.notified().await;
        }
    }
}
