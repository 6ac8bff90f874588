//! From a command to the operation that its client waits for.

use keyspace::{Key, Txn, Type};

use crate::execute::call::Call;
use crate::failure::{Done, WRONG_TYPE};
use crate::session::client::{BlockedOperation, Serving};

impl Call<'_> {
    /// Returns this call as the context in which its client is served.
    pub fn serving(&mut self) -> Serving<'_> {
        let (db, thread) = (self.session.db, self.session.thread);
        let (config, stats) = (self.engine.config(), self.engine.stats());
        Serving { config, stats, db, out: self.out, thread, effects: self.effects }
    }
}

/// Serves the client from the first of `keys` that holds something; if none does, blocks until one
/// does, or until `until` (unix ms). A key with a value of another type than `what` is an error.
pub fn serve_or_block(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    what: Type,
    keys: &[Key<'_>],
    operation: impl BlockedOperation + 'static,
    until: Option<u64>,
) -> Done {
    for key in keys {
        let Some(entry) = txn.find_mut(call.db(), key)? else { continue };
        if txn.properties(&entry).value_type() != what {
            return Err(WRONG_TYPE.into());
        }
        if operation.serve(&mut call.serving(), txn, key)? {
            return Ok(());
        }
    }
    call.block(what, keys, Box::new(operation), until);
    Ok(())
}
