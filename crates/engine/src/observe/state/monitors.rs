//! Who monitors.

use std::sync::{Arc, Mutex, PoisonError};

use crate::session::client::Client;

/// Clients that monitor.
#[derive(Default)]
pub(crate) struct Monitors {
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    pub(crate) fn clients(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
