//! The TCP sockets in force: the tasks that accept on them, and what those need.

use std::sync::mpsc::Receiver;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::stream::HandOff;

/// How long the end of an old socket is waited for: the main thread has nothing to do that takes
/// long.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);

/// The TCP sockets in force, which may be replaced.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) accepting: Mutex<Vec<Accepting>>,
    pub(crate) runtime: OnceLock<Handle>,
    pub(crate) senders: OnceLock<Vec<UnboundedSender<HandOff>>>,
}

/// The task that accepts on a socket.
pub(crate) struct Accepting {
    pub(crate) task: JoinHandle<()>,
    /// Disconnected when the socket is closed.
    pub(crate) closed: Receiver<()>,
}

/// Returns when the sockets are closed.
pub(crate) fn close(accepting: &mut Vec<Accepting>) {
    accepting.iter().for_each(|old| old.task.abort());
    for old in accepting.drain(..) {
        // It sends nothing: the end of the channel is what is waited for.
        let _ = old.closed.recv_timeout(CLOSES_WITHIN);
    }
}
