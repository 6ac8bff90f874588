//! Checks before a command is queued or executed. They come in Redis's order, since clients see
//! which error comes first.

use std::sync::atomic::Ordering::Relaxed;

use resp::Writer;

use crate::engine::Engine;
use crate::execute::call::Outcome;
use crate::execute::queue;
use crate::execute::request::Request;
use crate::failure::{self, Done, Failure};
use crate::observe::monitors;
use crate::session::Session;
use crate::table::Command;
use crate::table::spec::*;

impl Engine {
    /// Checks whether a command may be queued or executed.
    pub(crate) fn admit(
        &self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
    ) -> Done {
        let args = request.args;
        if !command.spec.accepts(args.len()) {
            let name = command.full_name();
            let text = format!("ERR wrong number of arguments for '{name}' command");
            return Err(Failure::text(text));
        }
        if session.replay {
            return Ok(());
        }
        session.role.set(self.replication().roles());
        if !command.spec.has(NO_AUTH) && self.permissions().must_authenticate(session) {
            return Err(failure::NO_AUTH.into());
        }
        if session.in_multi() && command.spec.has(NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        self.permissions().check(session, command, args)?;
        if self.cluster().is_on() {
            self.check_place(session, command, request)?;
        }
        self.memory_limits().check(session, command)?;
        if let Some(failure) = self.durability().failure()
            && (queue::writes(session, command) || command.spec.is(REPORTS_LOG_FAILURE))
        {
            return Err(failure);
        }
        if self.config().refuses_writes() && self.is_refused(session, command) {
            return Err(self.config().why_writes_are_refused());
        }
        if session.only_listens() && !command.spec.is(FOR_LISTENERS) {
            let name = command.full_name();
            return Err(Failure::text(format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            )));
        }
        if self.config().loading()
            && !queue::all_have(session, command, LOADING)
            && !command.spec.is(WHILE_LOADING)
        {
            return Err(failure::LOADING_DATA.into());
        }
        if self.replication().hides_stale_data() && !queue::all_have(session, command, STALE) {
            return Err(failure::MASTER_DOWN.into());
        }
        if !self.running_scripts().is_empty() && !command.spec.has(ALLOW_BUSY) {
            self.check_busy()?;
        }
        // Redis counts clients in MONITOR mode among its replicas.
        let client = &session.client;
        if (client.monitor.load(Relaxed) || client.is_replica.load(Relaxed))
            && queue::touches_keys(session, command)
        {
            return Err("ERR Replica can't interact with the keyspace".into());
        }
        if queue::shows_data(session, command) {
            session.shows_data.set(true);
        }
        Ok(())
    }

    /// Returns true if a command is refused whenever writes are.
    #[cold]
    fn is_refused(&self, session: &Session, command: &Command) -> bool {
        let reports = self.config().save_failed() && command.spec.is(REPORTS_LOG_FAILURE);
        reports || queue::writes(session, command)
    }

    /// Refuses commands while a script runs too long, if all clients are to wait for it.
    #[cold]
    fn check_busy(&self) -> Done {
        if !self.config().busy_reply_all() {
            return Ok(());
        }
        let threshold = self.config().busy_reply_threshold_ns();
        match self.running_scripts().busy(self.clock.unix_ns(), threshold) {
            Some(script) => Err(script.busy()),
            None => Ok(()),
        }
    }

    /// Refuses a command before it is executed; a transaction that is being queued will fail.
    pub(crate) fn reject(
        &self,
        session: &mut Session,
        command: Option<&Command>,
        args: &[&[u8]],
        failure: Failure,
        out: &mut Writer,
    ) -> Outcome {
        if let Some(command) = command {
            self.stats().rejected(session.thread, command.id);
        }
        let executes_queue = command.is_some_and(|command| command.spec.is(EXECUTES_QUEUE));
        if executes_queue && failure.is_redirection() {
            queue::discard(self, session);
            self.stats().error(failure.code());
            out.error(failure.as_bytes());
        } else if executes_queue {
            queue::discard(self, session);
            let mut text = b"EXECABORT Transaction discarded because of: ".to_vec();
            let cause = failure.as_bytes();
            text.extend_from_slice(cause.strip_prefix(b"ERR ").unwrap_or(cause));
            self.stats().error(b"EXECABORT");
            out.error(text);
            monitors::show_refused_exec(self, session, args);
        } else {
            queue::mark_dirty(session);
            session.caching &= session.in_multi();
            self.stats().error(failure.code());
            out.error(failure.as_bytes());
        }
        session.end_asking();
        Outcome::default()
    }
}

pub(super) fn unknown_subcommand(command: &Command, args: &[&[u8]]) -> Failure {
    let name = command.spec.name.to_uppercase();
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(c_string(args[1], 128));
    text.extend_from_slice(format!("'. Try {name} HELP.").as_bytes());
    Failure::text(text)
}

pub(super) fn unknown_command(args: &[&[u8]]) -> Failure {
    let mut words = Vec::new();
    for arg in args.iter().skip(1) {
        if words.len() >= 128 {
            break;
        }
        let buffer = 128 - words.len();
        words.push(b'\'');
        words.extend_from_slice(c_string(arg, buffer));
        words.extend_from_slice(b"' ");
    }
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_string(args.first().copied().unwrap_or_default(), 128));
    text.extend_from_slice(b"', with args beginning with: ");
    text.extend_from_slice(&words);
    Failure::text(text)
}

/// Returns what C's `%.*s` prints: up to a zero byte, at most `len` bytes.
fn c_string(bytes: &[u8], len: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(len)];
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}
