//! Commands and damage: what a client is told of a key whose bytes the medium lost, and running a
//! command again that may have read zeros in their place.
//!
//! While nothing is damaged this costs a command loads of three words that nobody writes.

use keyspace::{Db, Harm, Key};

use resp::Mark;

use crate::call::{Call, Next};
use crate::engine::Engine;
use crate::failure::{Done, Failure};
use crate::spec::*;
use crate::table::Command;

/// How often a command is tried while the medium goes on losing bytes.
pub(crate) const TRIES: usize = 8;

impl Engine {
    /// Refuses a command on a key that is lost with its name, and when the store was stopped each
    /// write, and each read if keys may not be found.
    #[cold]
    pub(crate) fn refuse_damaged(
        &self,
        db: Db,
        command: &Command,
        args: &[&[u8]],
        keys: &[Key<'_>],
    ) -> Done {
        let keyspace = self.keyspace();
        if let Some(why) = keyspace.stopped() {
            let refused = if keyspace.hides_keys() { READONLY | WRITE } else { WRITE };
            if command.spec.has(refused) {
                return Err(stopped(why));
            }
        }
        for key in keys {
            match keyspace.harm(db, key) {
                None => {}
                Some(Harm::Stopped(why)) => return Err(stopped(&why)),
                Some(Harm::Nameless(_)) if replaces(command, args) => {
                    keyspace.cut_nameless(db, key)?;
                    self.tell_of_lost(key);
                }
                Some(Harm::Nameless(at)) => return Err(Failure::damaged(at)),
            }
        }
        Ok(())
    }

    /// Runs a command again that found no room, or that may have read what the medium lost.
    #[cold]
    pub(crate) fn again(&self, call: &mut Call<'_>, mark: Mark, first: Done) -> Done {
        let mut done = first;
        for tries in 0..TRIES {
            match &done {
                Err(failure) if failure.is_no_room() => {
                    let bytes = call.args.iter().map(|arg| arg.len()).sum();
                    if !self.find_room(bytes, tries) {
                        break;
                    }
                }
                Err(failure) if failure.is_unsettled() => self.keyspace().settle(),
                _ => break,
            }
            call.out.truncate(mark);
            call.effects.clear();
            call.pinned = None;
            call.next = Next::Reply;
            call.losses = self.keyspace().losses();
            self.stop_waiting(call.session);
            done = self.run(call);
        }
        done
    }
}

/// Whether a command puts a new value in the place of whatever a key held, and tells nothing of it.
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
