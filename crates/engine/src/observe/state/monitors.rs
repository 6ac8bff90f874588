//! Clients in MONITOR mode.

use std::sync::{Arc, Mutex, PoisonError};

use crate::session::client::Client;

/// The clients in MONITOR mode.
#[derive(Default)]
pub(crate) struct Monitors {
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    pub(crate) fn clients(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
