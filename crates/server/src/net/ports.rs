//! The TCP sockets in force: the tasks that accept on them, and the state that these need.

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::net::socket::HandOff;
use crate::net::unix_socket::SocketName;

/// How long to wait for the end of an old socket: the main thread does nothing that takes long.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);

/// The sockets in force, of which those of TCP may be replaced.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) accepting: Mutex<Vec<Accepting>>,
    pub(crate) runtime: OnceLock<Handle>,
    pub(crate) senders: OnceLock<Vec<UnboundedSender<HandOff>>>,
    unix: OnceLock<SocketName>,
}

impl Ports {
    /// Records which Unix socket is at a path.
    pub(crate) fn note_unix(&self, path: &Path) {
        if let Some(name) = SocketName::of(path) {
            let _ = self.unix.set(name);
        }
    }

    /// Removes the Unix socket's name.
    pub(crate) fn remove_unix(&self) {
        if let Some(name) = self.unix.get() {
            name.remove();
        }
    }
}

/// The task that accepts clients on a socket.
pub(crate) struct Accepting {
    pub(crate) task: JoinHandle<()>,
    /// Disconnected when the socket is closed.
    pub(crate) closed: Receiver<()>,
}

/// Closes the sockets, and returns when that is done.
pub(crate) fn close(accepting: &mut Vec<Accepting>) {
    accepting.iter().for_each(|old| old.task.abort());
    for old in accepting.drain(..) {
        // Nothing is sent: the wait is for the end of the channel.
        let _ = old.closed.recv_timeout(CLOSES_WITHIN);
    }
}
