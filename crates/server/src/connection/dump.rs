//! A dump over a connection (SYNC): the pieces that the writing thread passes on go to the socket.
//!
//! Memory is bounded by the channel between them. If the client takes nothing for a while, or is
//! killed, the channel is dropped, and the thread notices.

use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use commands::admin::Passed;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, channel};

use super::Connection;

/// Pieces that wait to be sent.
const PIECES: usize = 16;
/// How long a client may take nothing: Redis's default for `repl-timeout`.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a dump; the rest of it is sent at the end like any reply.
pub(super) async fn send(connection: &mut Connection) {
    let (sender, mut pieces) = channel(PIECES);
    let pass = move |piece| match sender.try_send(piece) {
        Ok(()) => Passed::Yes,
        Err(TrySendError::Full(piece)) => Passed::Later(piece),
        Err(TrySendError::Closed(_)) => Passed::Gone,
    };
    let engine = &connection.worker.shared.engine;
    let Some(host) = engine.host() else { return };
    if let Err(failure) = host.send_dump(Box::new(pass)) {
        engine.stats().error(failure.code());
        connection.output.writer.error(failure.as_bytes());
        return;
    }
    while drain(connection).await {
        let Some(piece) = next(connection, &mut pieces).await else { return };
        connection.output.writer.buffer().extend_from_slice(&piece);
    }
}

/// Sends the pending output; false if the connection is to end.
async fn drain(connection: &mut Connection) -> bool {
    let sent = poll_fn(|cx| connection.poll_drain(cx));
    if tokio::time::timeout(PATIENCE, sent).await.is_err() {
        tracing::warn!("A client takes nothing of the dump that it asked for: closed");
        connection.output.clear();
        return false;
    }
    connection.output.is_empty() && !connection.client.killed.load(Relaxed)
}

async fn next(connection: &mut Connection, pieces: &mut Receiver<Vec<u8>>) -> Option<Vec<u8>> {
    poll_fn(|cx| {
        connection.store_waker(cx);
        match connection.client.killed.load(Relaxed) {
            true => Poll::Ready(None),
            false => pieces.poll_recv(cx),
        }
    })
    .await
}
