//! A dump over a connection (SYNC, PSYNC): the pieces that the writing thread passes on go to the
//! socket.
//!
//! Memory is bounded by the channel between them. If the client takes nothing for a while, or is
//! killed, the channel is dropped, and the thread notices.

use std::future::poll_fn;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use commands::Failure;
use commands::admin::{DumpForm, Passed, SentDump, TakesDump};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Connection;

/// Pieces that wait to be sent.
const PIECES: usize = 16;

/// Sends a dump to a client that wants nothing after it; the rest of it is sent at the end like any
/// reply.
pub(super) async fn send_only(connection: &mut Connection) {
    let replica = connection.session.replica.as_ref();
    let is_marked = replica.is_some_and(|replica| replica.knows_mark);
    let mut pieces = match begin(connection, only(is_marked)) {
        Ok(pieces) => pieces,
        Err(failure) => {
            connection.worker.shared.engine.stats().error(failure.code());
            connection.output.writer.error(failure.as_bytes());
            return;
        }
    };
    while drain(connection).await {
        let piece = poll_fn(|cx| poll_piece(connection, &mut pieces, cx)).await;
        let Some(piece) = piece else { return };
        connection.output.writer.buffer().extend_from_slice(&piece);
    }
}

fn only(is_marked: bool) -> SentDump {
    let form = DumpForm { is_marked, is_for_replica: false, is_for_valkey: false };
    SentDump { form, at_cut: Box::new(Vec::new), stream: Box::new(|| None) }
}

/// Begins a dump, whose pieces arrive here; an empty one says that it is complete.
pub(super) fn begin(connection: &Connection, dump: SentDump) -> Result<Receiver<Vec<u8>>, Failure> {
    let (sender, pieces) = channel(PIECES);
    let host = connection.worker.shared.engine.host().ok_or("ERR there is no server")?;
    host.send_dump(dump, Box::new(Pieces(sender)))?;
    Ok(pieces)
}

/// The thread's end of the channel.
struct Pieces(Sender<Vec<u8>>);

impl TakesDump for Pieces {
    fn pass(&mut self, piece: Vec<u8>) -> Passed {
        match self.0.try_send(piece) {
            Ok(()) => Passed::Yes,
            Err(TrySendError::Full(piece)) => Passed::Later(piece),
            Err(TrySendError::Closed(_)) => Passed::Gone,
        }
    }

    fn is_idle(&self) -> bool {
        self.0.capacity() == PIECES
    }

    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// Sends the pending output; false if the connection is to end.
pub(super) async fn drain(connection: &mut Connection) -> bool {
    let patience = connection.worker.shared.config.values().repl_timeout;
    let sent = poll_fn(|cx| connection.poll_drain(cx));
    let patience = Duration::from_secs(u64::try_from(patience).unwrap_or(1));
    if tokio::time::timeout(patience, sent).await.is_err() {
        let line = commands::admin::describe(
            &connection.worker.shared.engine,
            &connection.client,
            connection.now_ms(),
        );
        tracing::warn!("Disconnecting timedout replica (full sync): it takes nothing: {line}");
        connection.output.clear();
        return false;
    }
    connection.output.is_empty() && !connection.client.killed.load(Relaxed)
}

/// Returns the next piece, once it has arrived; none if there are no more, or the client is killed.
pub(super) fn poll_piece(
    connection: &mut Connection,
    pieces: &mut Receiver<Vec<u8>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Vec<u8>>> {
    connection.store_waker(cx);
    match connection.client.killed.load(Relaxed) {
        true => Poll::Ready(None),
        false => pieces.poll_recv(cx),
    }
}
