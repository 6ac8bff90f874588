//! Commands and damage: the errors for keys whose bytes the medium lost. (A command that may have
//! read zeros instead is run again by [`keyspace::Keyspace::retry_losses`].)
//!
//! While nothing is damaged, this costs a command loads of three words that nobody writes.

use keyspace::{Db, Key, KeyDamage, Txn};

use super::step::Step;
use crate::engine::Engine;
use crate::failure::{Done, Failure};
use crate::table::Command;
use crate::table::spec::*;

impl Engine {
    /// Refuses a command on a key that is lost with its name. If the store was stopped, it also
    /// refuses each write, and each read if keys may not be found.
    #[cold]
    pub fn refuse_damaged(
        &self,
        db: Db,
        command: &Command,
        args: &[&[u8]],
        keys: &[Key<'_>],
    ) -> Done {
        self.refuse_stopped(command)?;
        let keyspace = self.keyspace();
        for key in keys {
            match keyspace.key_damage(db, key) {
                None => {}
                Some(KeyDamage::Stopped(why)) => return Err(stopped(&why)),
                Some(KeyDamage::Unidentified(_)) if replaces(command, args) => {
                    keyspace.remove_unidentified(db, key)?;
                    self.tracking_clients().notify_of_lost(key);
                }
                Some(KeyDamage::Unidentified(at)) => return Err(Failure::damaged(at)),
            }
        }
        Ok(())
    }

    /// As [`Engine::refuse_damaged`], for a command whose shards are locked: a key that is lost
    /// with its name is refused even if the command would replace its value.
    #[inline]
    pub fn refuse_damaged_within(&self, txn: &Txn<'_>, db: Db, step: &Step<'_>) -> Done {
        if !self.keyspace().has_media_errors() {
            return Ok(());
        }
        self.refuse_stopped(step.command)?;
        match step.keys.iter().find_map(|key| txn.lost(db, key)) {
            Some(at) => Err(Failure::damaged(at)),
            None => Ok(()),
        }
    }

    fn refuse_stopped(&self, command: &Command) -> Done {
        let keyspace = self.keyspace();
        let refused = if keyspace.hides_keys() { READONLY | WRITE } else { WRITE };
        match keyspace.stopped() {
            Some(why) if command.spec.has(refused) => Err(stopped(why)),
            _ => Ok(()),
        }
    }
}

/// Returns true if a command replaces whatever a key held without showing anything of it.
fn replaces(command: &Command, args: &[&[u8]]) -> bool {
    let looks_back = |arg: &&[u8]| {
        [&b"get"[..], b"keepttl", b"nx", b"xx"].iter().any(|word| arg.eq_ignore_ascii_case(word))
    };
    // Options come after the value.
    let options = command.spec.value.and_then(|at| args.get(at + 1..)).unwrap_or(&[]);
    command.spec.is(REPLACES) && !options.iter().any(looks_back)
}

fn stopped(why: &str) -> Failure {
    Failure::text(format!("MEDIAERR the store is stopped: {why}"))
}
