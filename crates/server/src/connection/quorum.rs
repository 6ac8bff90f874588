//! Replies that wait until replicas have what they show (`repl-acknowledge`).
//!
//! The connection yields once before it asks the replicas how far they are, so that connections
//! that were ready together ask once. It goes on reading, a little, to notice that its client is
//! gone.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use commands::{Confirmation, Quorum};

use super::{Connection, batch};

/// Bytes that are read ahead while replies wait.
const AHEAD: usize = 64 * 1024;

/// The end of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The replicas have what the replies show.
    Confirmed,
    /// This server's role has changed.
    RoleChanged,
    /// The client is gone or must go.
    Gone,
}

/// Waits until replicas have what the replies show. Returns false if they may not leave: then the
/// reason takes their place.
pub(super) async fn pass(connection: &mut Connection) -> bool {
    let engine = Arc::clone(&connection.worker.shared.engine);
    let replication = engine.replication();
    let quorum = connection.session.quorum.unwrap_or(replication.quorum());
    if quorum.replicas == 0 {
        return true;
    }
    let end = match replication.confirm(quorum) {
        None => Some(End::Confirmed),
        Some(confirmation) => {
            tokio::task::yield_now().await;
            confirmation.ask();
            let end = poll_fn(|cx| poll(connection, &confirmation, cx));
            match replication.confirmation_timeout() {
                None => Some(end.await),
                Some(time) => tokio::time::timeout(time, end).await.ok(),
            }
        }
    };
    connection.client.blocked.store(false, Relaxed);
    let has_same_role = replication.roles() == connection.roles;
    match end {
        Some(End::Gone) => connection.output.forget_unpassed(),
        Some(End::Confirmed) if has_same_role => return true,
        Some(_) => connection.fail(
            "UNBLOCKED instance state changed (master -> replica?) before replicas had confirmed this",
        ),
        None => connection.fail(&late(quorum)),
    }
    false
}

fn late(quorum: Quorum) -> String {
    let kept = if quorum.durable { "durably " } else { "" };
    format!(
        "NOREPLICAS {} replicas did not confirm within repl-acknowledge-timeout that they {kept}have \
         this; it is executed here, and may be lost",
        quorum.replicas
    )
}

fn poll(
    connection: &mut Connection,
    confirmation: &Confirmation<'_>,
    cx: &mut Context<'_>,
) -> Poll<End> {
    connection.store_waker(cx);
    if connection.client.killed.load(Relaxed) {
        return Poll::Ready(End::Gone);
    }
    if connection.worker.shared.engine.replication().roles() != connection.roles {
        return Poll::Ready(End::RoleChanged);
    }
    if confirmation.poll(cx.waker()) {
        return Poll::Ready(End::Confirmed);
    }
    connection.client.blocked.store(true, Relaxed);
    if connection.input.len() >= AHEAD {
        return Poll::Pending;
    }
    connection.input.grow_for_more();
    match connection.poll_read(cx) {
        Poll::Ready(true) if batch::is_within_limit(connection) => {}
        Poll::Ready(_) => return Poll::Ready(End::Gone),
        Poll::Pending => return Poll::Pending,
    }
    // Whole commands may follow the one that was missing bytes.
    connection.missing = 0;
    let _ = pin!(tokio::task::yield_now()).poll(cx);
    Poll::Pending
}
