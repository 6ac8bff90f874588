//! Blocking commands: clients that wait for a key to hold what they want.
//!
//! A blocking command is an ordinary one that finds nothing. It then leaves a
//! [`Waiter`](crate::session::client::Waiter) at each of its keys ([`waiting`]) and its connection
//! sleeps, with what follows in its input unread. What serving it would take is a
//! [`BlockedOperation`](crate::session::client::BlockedOperation): the command runs it at once for
//! the first key that holds something, and later whoever fills a key runs it for the client.
//!
//! **Who serves.** The thread that executed the filling command or EXEC, after its commit and
//! before it gives up the locks of its shards (`serve`). So nobody takes an element between, the
//! filling client's next command finds what the waiting clients left, and a client that is served
//! is served by a transaction which is durable, and in the command log right after the one that
//! filled, before its reply exists. Keys are looked at in the order in which they were changed, the
//! clients of a key in the order in which they came; a move fills another key, which goes to the
//! end of the queue. Serving goes on while the key holds something of the type that is waited for:
//! each client costs its own service, and those after cost nothing.
//!
//! **Why no wake-up is lost.** A waiter is left at its keys under the locks of their shards, in the
//! transaction that found them empty. Whoever fills a key holds the lock of its shard from before
//! the change until everybody was served; it comes before, and the blocking command finds the key
//! filled, or after, and finds the waiter. The list of changes that it goes by is kept as long as
//! anybody waits in the shard ([`keyspace::Keyspace::follow`]). A move needs the shard of its
//! target too: whoever changes a key locks the targets of those that wait for it, and theirs,
//! before it begins (`Engine::extend_lock_set`): of those who come first, as many as the command
//! may bring elements, and few. So a thousand clients on a key cost a push no more than one. Where
//! more are to be served, the same thread does so in further rounds, after its command's locks;
//! others may take elements between.
//!
//! **Why nothing is taken for a client that is gone.** A waiter is in one of three states, after a
//! lock of its own: waiting, claimed by the thread that serves it, ended. Its connection ends it
//! when it is closed or times out, and others end it by CLIENT UNBLOCK; each only from *waiting*,
//! and where it is claimed they wait for the little time that serving takes. So a client is served
//! once or not at all, who finds its waiter ended passes on to the next one, and so does who finds
//! that its connection is to be closed (CLIENT KILL). The end of a connection is seen while it
//! waits, since it goes on reading.
//!
//! **Whose right was taken away.** What the command may do was checked when it began to wait. It is
//! checked again, by the rules of now, by whoever would serve it: a client that may not execute it
//! any more gets an error, as if it had sent it then, and what it would have got is the next one's.
//!
//! **Where serving fails.** The heap may be full, or the medium lose bytes: then everybody waits
//! on, the keys are kept (`Deferred`), each once, and tried again with the periodic work; nobody is
//! served before those who came first.
//!
//! **How a reply crosses threads.** The serving thread leaves it in the waiter, with the place in
//! the log up to which it must be settled, and wakes the connection's task on its own thread; that
//! lets it through the same gate as any reply.
//!
//! Locks are taken in the order: shards, claimed waiters, table. Whoever has claimed a waiter waits
//! for no shard until it has given it back.

pub(crate) mod begin;
mod end;
mod operation;
mod serve;
pub mod waiting;

pub use operation::serve_or_block;
pub use serve::Waiters;
