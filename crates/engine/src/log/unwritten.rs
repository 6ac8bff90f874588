//! Reads while the command log cannot be written.
//!
//! A reply waits until what it saw is as safe as what was acknowledged. Where a write of the log
//! has failed, some commands were executed, refused, and wait in the log's buffer to be written
//! again. With `appendfsync always` a read that saw none of their keys saw only what is durable,
//! and is answered; any other is refused, as the commands were. With the other policies all reads
//! are answered meanwhile. Nothing of this is on the way of a command while the log can be written:
//! the keys are read from the buffer when they are needed.

use keyspace::Key;
use resp::{Limits, Next, Parser};

use crate::engine::Engine;
use crate::failure::{self, Failure};
use crate::table::Lookup;
use crate::table::spec::LOG_FRAME;

impl Engine {
    /// Returns up to where the log must be settled before a read of `keys` may be answered that saw
    /// the log up to `seen`; an error if nobody knows when it will be. With no keys it may have
    /// read anything.
    pub fn check_read(&self, keys: &[Key<'_>], seen: u64) -> Result<u64, Failure> {
        let Some(log) = self.log() else { return Ok(0) };
        if log.is_durable(seen) {
            return Ok(seen);
        }
        let Some(why) = log.failure() else { return Ok(seen) };
        if !log.is_synchronous() {
            return Ok(0);
        }
        let is_known = |bytes: Vec<u8>| !keys.is_empty() && !self.names_any(&bytes, keys);
        if log.unwritten().is_some_and(is_known) {
            return Ok(0);
        }
        Err(failure::log_failed(log.name(), &why))
    }

    /// Returns true if one of these commands names one of the keys, in whatever database, or may
    /// concern any.
    fn names_any(&self, commands: &[u8], keys: &[Key<'_>]) -> bool {
        let (mut parser, limits) = (Parser::new(), Limits::default());
        while let Ok(Next::Command) = parser.next(commands, &limits) {}
        parser.commands(commands).any(|command| {
            let args: Vec<&[u8]> = command.arguments().collect();
            let lookup = self.table().find_original(&args);
            if let Lookup::Found(command) = lookup
                && command.spec.is(LOG_FRAME)
            {
                return false;
            }
            let (mut named, mut hit) = (false, false);
            self.keys_of(lookup, &args, |key| {
                named = true;
                hit |= keys.iter().any(|read| read.bytes() == key.bytes());
            });
            hit || !named
        })
    }
}
