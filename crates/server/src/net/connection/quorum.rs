//! Replies that wait until replicas have what they show (`repl-acknowledge`).
//!
//! The connection yields once before it asks the replicas how far they are, so that connections
//! that were ready together ask once. It goes on reading, to notice that its client is gone.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use commands::{Confirmation, Quorum};

use super::{Connection, batch};

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
    let quorum = connection.session.quorum(replication.quorum());
    if quorum.replicas == 0 {
        return true;
    }
    let end = match replication.confirm(quorum) {
        None => Some(End::Confirmed),
        Some(confirmation) => {
            // Others must not have to wait for these replicas too.
            connection.session.give_up_shards();
            tokio::task::yield_now().await;
            confirmation.ask();
            let was_blocked = connection.client.blocked.swap(true, Relaxed);
            let end = poll_fn(|cx| poll(connection, &confirmation, cx));
            let end = match replication.confirmation_timeout() {
                None => Some(end.await),
                Some(time) => tokio::time::timeout(time, end).await.ok(),
            };
            connection.client.blocked.store(was_blocked, Relaxed);
            end
        }
    };
    let has_same_role = has_same_role(connection);
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

/// Returns how often this server's role has changed; none if it is a replica, whose replies wait
/// for nobody.
pub(super) fn roles(connection: &Connection) -> Option<u64> {
    let replication = connection.worker.shared.engine.replication();
    let roles = replication.roles();
    (!replication.is_replica()).then_some(roles)
}

fn has_same_role(connection: &Connection) -> bool {
    let roles = connection.worker.shared.engine.replication().roles();
    connection.roles.is_none_or(|before| before == roles)
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
    let is_confirmed = confirmation.poll(cx.waker());
    // After the waker is known to who changes the role.
    if !has_same_role(connection) {
        return Poll::Ready(End::RoleChanged);
    }
    if is_confirmed {
        return Poll::Ready(End::Confirmed);
    }
    let limit = connection.worker.shared.limits.output(&connection.client).hard;
    if limit > 0 && connection.client.push_bytes.load(Relaxed) as u64 > limit {
        return Poll::Ready(End::Gone);
    }
    // A call on another thread may have borrowed the input.
    if connection.session.is_away() {
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
