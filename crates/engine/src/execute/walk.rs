//! Commands that take several steps, between which other clients are served.

use resp::Writer;

use crate::engine::Engine;
use crate::execute::call::{Call, Next, Outcome};
use crate::failure::Failure;
use crate::log::Effects;
use crate::session::Session;

impl Engine {
    /// Takes the next step of a command that answered [`Next::Walk`]. Returns the outcome once the
    /// reply is in `out`.
    pub fn go_on(&self, session: &mut Session, out: &mut Writer) -> Option<Outcome> {
        let Some(mut walk) = session.walk.take() else { return Some(Outcome::default()) };
        let command = &self.table().all()[walk.command];
        let Some(step) = command.spec.step else { return Some(Outcome::default()) };
        let started_ns = self.clock.unix_ns();
        let mark = out.mark();
        let done = step(self, session, &mut walk);
        let took = self.clock.unix_ns().saturating_sub(started_ns);
        let locked = done.as_ref().err().and_then(Failure::wanted_shards);
        if let Some(shards) = locked {
            let _ = self.wait_for_shards(session, shards);
        } else {
            session.shard_wait = None;
        }
        if locked.is_some() || matches!(done, Ok(false)) {
            walk.nanos += took;
            session.walk = Some(walk);
            return None;
        }
        match &done {
            Ok(_) => walk.reply(out),
            Err(failure) => {
                walk.reply_after = 0;
                out.truncate(mark);
                out.error(failure.as_bytes());
                self.stats().error(failure.code());
            }
        }
        let words: Vec<&[u8]> = walk.words.iter().map(|word| &**word).collect();
        let mut effects = Effects::default();
        let mut call = Call::new(self, session, command, out, started_ns, &mut effects);
        call.args = &words;
        self.finish(&mut call, started_ns.saturating_sub(walk.nanos), done.is_err());
        Some(Outcome { next: Next::Reply, reply_after: walk.reply_after })
    }
}
