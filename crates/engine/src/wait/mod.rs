//! Blocking commands: clients that wait for a key to hold what they want.
//!
//! A blocking command is an ordinary one that finds nothing. It then leaves a
//! [`Waiter`](crate::session::client::Waiter) at each of its keys ([`waiting`]) and its connection
//! sleeps, with the rest of its input unread. Serving it is a
//! [`BlockedOperation`](crate::session::client::BlockedOperation): the command runs it at once for
//! the first key that holds something, and later the thread that fills a key runs it for the
//! client.
//!
//! **Who serves.** The thread that executed the filling command or EXEC, after its commit and
//! before it gives up the locks of its shards (`serve`). So nobody takes an element in between, and
//! the filling client's next command finds what the waiting clients left. A client is served by a
//! transaction that is durable, and in the command log right after the filling one, before its
//! reply exists. Keys are looked at in the order in which they were changed, the clients of a key
//! in the order in which they came; a key that a move fills goes to the end of the queue. Serving
//! goes on while the key holds something of the type that is waited for, so that clients that get
//! nothing cost nothing.
//!
//! **Why no wake-up is lost.** A waiter is left at its keys under the locks of their shards, in the
//! transaction that found them empty. A thread that fills a key holds the lock of its shard from
//! before the change until all were served. So either it comes before the blocking command, which
//! finds the key filled, or after, and finds the waiter. The list of changes that it relies on is
//! kept as long as a client waits in the shard ([`keyspace::Keyspace::listen`]). A move needs the
//! shard of its target too: a command that changes a key first locks the targets of the clients
//! that wait for it, and so on (`Engine::extend_lock_set`): of the first clients in the queue, at
//! most as many as the command may bring elements, and few. So a thousand clients on a key cost a
//! push no more than one. If more are to be served, the same thread does so in further rounds,
//! after its command's locks are released; others may take elements in between.
//!
//! **Why nothing is taken for a client that is gone.** A waiter is in one of three states, under a
//! lock of its own: waiting, claimed by the thread that serves it, ended. Its connection ends it
//! when it is closed or times out, and others end it by CLIENT UNBLOCK; each only from *waiting*;
//! while it is claimed they wait for the short time that serving takes. So a client is served once
//! or not at all. A thread that finds the waiter ended, or its connection about to be closed
//! (CLIENT KILL), goes on to the next one. The end of a connection is noticed while it waits, since
//! it goes on reading.
//!
//! **Revoked permissions.** The command's permissions were checked when it began to wait. The
//! thread that would serve it checks them again, by the present rules: a client that may no longer
//! execute it gets an error, as if it had sent it then, and the next client gets the element.
//!
//! **If serving fails.** The heap may be full, or the medium lose bytes: then all clients wait on,
//! and the keys are kept (`Deferred`), each once, and tried again with the periodic work. No client
//! is served before those that came first.
//!
//! **How a reply crosses threads.** The serving thread leaves it in the waiter, with the offset up
//! to which the log must be settled, and wakes the connection's task on its own thread, which makes
//! it wait at the worker's commit barrier, as any reply does.
//!
//! Locks are taken in the order: shards, claimed waiters, table. A thread that has claimed a waiter
//! waits for no shard until it has released it.

pub(crate) mod begin;
mod end;
mod operation;
mod redirect;
mod serve;
pub(crate) mod stop;
pub mod waiting;

pub use operation::serve_or_block;
pub use serve::BlockedClients;
