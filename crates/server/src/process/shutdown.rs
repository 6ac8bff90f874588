//! The end of the server: requested by a signal or a command, carried out by the main thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    patient: Mutex<Patient>,
    is_begun: Notify,
    /// Until when the server waits for replicas at most, unix ms; 0 if it does not.
    until_ms: AtomicU64,
    is_aborted: AtomicBool,
}

/// An end that waits for replicas, and the clients that wait with it.
#[derive(Default)]
struct Patient {
    /// What a client asked for, until the wait begins.
    request: Option<Request>,
    clients: Vec<u64>,
    /// Whether the steps before the end are being taken,
    is_under_way: bool,
    /// ... and can be given up.
    can_abort: bool,
}

impl Shutdown {
    /// Requests the end; the first request counts.
    pub(crate) fn request(&self, request: Request) {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(request);
        self.asked.notify_one();
    }

    /// Requests the end because the data cannot be loaded, or the node of a cluster cannot go on:
    /// the last line of the log has the reason.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.request(Request::default());
    }

    /// Returns true if the server ends since it cannot go on.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn patient(&self) -> MutexGuard<'_, Patient> {
        self.patient.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the end for a client that waits for it, after replicas have caught up.
    pub(crate) fn begin(&self, client: u64, request: Request) {
        let mut patient = self.patient();
        patient.clients.push(client);
        if !patient.is_under_way {
            patient.request.get_or_insert(request);
            self.is_begun.notify_one();
        }
    }

    /// Waits for a request of [`Shutdown::begin`].
    pub(crate) async fn begun(&self) -> Request {
        loop {
            if let Some(request) = self.patient().request {
                return request;
            }
            self.is_begun.notified().await;
        }
    }

    /// Notes that the server waits for replicas from now on.
    pub(crate) fn begin_waiting(&self) {
        let mut patient = self.patient();
        patient.request = None;
        (patient.is_under_way, patient.can_abort) = (true, true);
    }

    /// Ends the wait for replicas, which cannot be given up any more. Returns false if it was.
    pub(crate) fn end_waiting(&self) -> bool {
        let mut patient = self.patient();
        self.until_ms.store(0, Ordering::Release);
        patient.can_abort = false;
        !self.is_aborted()
    }

    /// Cancels the shutdown. Returns the clients that wait for its end.
    pub(crate) fn cancel(&self) -> Vec<u64> {
        self.until_ms.store(0, Ordering::Release);
        self.is_aborted.store(false, Ordering::Release);
        std::mem::take(&mut *self.patient()).clients
    }

    /// Sets until when the server waits at most, unix ms.
    pub(crate) fn set_until_ms(&self, until_ms: u64) {
        self.until_ms.store(until_ms, Ordering::Release);
    }

    /// Returns until when the server waits for replicas, unix ms.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        Some(self.until_ms.load(Ordering::Acquire)).filter(|until| *until != 0)
    }

    /// Gives up the wait for replicas. Returns false if there is none.
    pub(crate) fn abort(&self) -> bool {
        let patient = self.patient();
        let is_on = patient.can_abort || patient.request.is_some();
        if !is_on {
            return false;
        }
        self.is_aborted.store(true, Ordering::Release);
        true
    }

    /// Returns true if the wait was given up.
    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
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
