//! What a blocked client waits for, and the way of a command to it.

use keyspace::{Db, Key, Txn, Type};
use resp::Writer;

use crate::call::Call;
use crate::engine::Engine;
use crate::failure::{Done, Failure, WRONG_TYPE};
use crate::log::Effects;

/// Where a client is served: by its own command, or later by whoever fills the key.
pub(crate) struct Serving<'a> {
    pub(crate) engine: &'a Engine,
    /// The client's database.
    pub(crate) db: Db,
    /// The client's reply.
    pub(crate) out: &'a mut Writer,
    /// Of the thread that serves, for statistics.
    stripe: usize,
    effects: &'a mut Effects,
}

impl<'a> Serving<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        db: Db,
        out: &'a mut Writer,
        stripe: usize,
        effects: &'a mut Effects,
    ) -> Serving<'a> {
        Serving { engine, db, out, stripe, effects }
    }

    /// Whether there is a log, and it pays to tell it what was done.
    pub(crate) fn has_log(&self) -> bool {
        self.effects.enabled()
    }

    /// Says that data changed, and which command would have the same effect at any time.
    pub(crate) fn wrote_as(&mut self, args: &[&[u8]]) {
        self.engine.stats().changed(self.stripe);
        self.effects.push(self.db, args);
    }
}

impl Call<'_> {
    /// This call as a place where its client is served.
    pub(crate) fn serving(&mut self) -> Serving<'_> {
        let (db, stripe) = (self.session.db, self.session.stripe);
        Serving { engine: self.engine, db, out: self.out, stripe, effects: self.effects }
    }
}

/// What a client waits for: the part of a blocking command that needs something to be there.
///
/// It is run in a transaction that holds the shards of the key and of [`BlockedOperation::target`],
/// and of nothing else.
pub(crate) trait BlockedOperation: Send + Sync {
    /// Serves the client from a key that holds a value of the type it waits for: takes, replies,
    /// logs. `false` if this value has nothing for it (a stream without newer entries); then
    /// nothing was changed and nothing written. An error is the client's reply, and what was
    /// changed is taken back.
    fn serve(
        &self,
        serving: &mut Serving<'_>,
        txn: &mut Txn<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Failure>;

    /// A key that serving writes to, beside the one that it takes from.
    fn target(&self) -> Option<&[u8]> {
        None
    }

    /// The error that ends the wait when a key of it is deleted or gets a value of another type;
    /// none to go on waiting.
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// The reply when the time is over.
    fn time_out(&self, out: &mut Writer) {
        out.null_array();
    }

    /// The reply where nobody may block: inside EXEC.
    fn refuse(&self, out: &mut Writer) {
        self.time_out(out);
    }
}

/// Serves the client from the first of `keys` that holds something; where none does it blocks until
/// one does, or until `until` (unix ms). A key with a value of another type than `what` is an
/// error.
pub(crate) fn serve_or_block(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    what: Type,
    keys: &[Key<'_>],
    operation: impl BlockedOperation + 'static,
    until: Option<u64>,
) -> Done {
    for key in keys {
        let Some(entry) = txn.find_mut(call.db(), key)? else { continue };
        if txn.type_of(&entry) != what {
            return Err(WRONG_TYPE.into());
        }
        if operation.serve(&mut call.serving(), txn, key)? {
            return Ok(());
        }
    }
    call.block(what, keys, Box::new(operation), until);
    Ok(())
}
