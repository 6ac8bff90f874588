//! One execution of one command: the input of its function, and its output in addition to the
//! reply.

use std::sync::Arc;

use keyspace::{Db, Expire, Key, Losses, Pinned, Txn};
use resp::Writer;
use script::Flags;

use crate::engine::Engine;
pub use crate::execute::outcome::{Next, Outcome};
use crate::failure::{Done, Failure, SYNTAX};
use crate::log::Effects;
use crate::notify::events::EventClass;
use crate::scripts::running::{LongSince, ScriptKind};
use crate::session::Session;
use crate::session::walk::Walk;
use crate::table::Command;
use crate::table::spec::{BLOCKING, Group, LONG};

/// How a command is executed: its function, and which shards are locked for it.
#[derive(Clone, Copy)]
pub enum Run {
    /// It is only a name for its subcommands.
    Container,
    /// It touches no data, or locks for itself.
    Session(fn(&mut Call<'_>) -> Done),
    /// In a transaction over the shards of its keys.
    Keys(fn(&mut Call<'_>, &mut Txn<'_>) -> Done),
    /// In a transaction over the shards of its keys, or over all shards if its words say that it
    /// touches keys which they do not name.
    KeysOrAll {
        /// Returns true if the words say that.
        needs_all: fn(&[&[u8]]) -> bool,
        /// Executes the command.
        run: fn(&mut Call<'_>, &mut Txn<'_>) -> Done,
    },
    /// In a transaction over all shards.
    All(fn(&mut Call<'_>, &mut Txn<'_>) -> Done),
    /// It locks for itself, mostly one shard after the other.
    OwnLocks {
        /// Executes the command.
        run: fn(&mut Call<'_>) -> Done,
        /// Does the same inside EXEC or a script, in a transaction over all shards.
        within: fn(&mut Call<'_>, &mut Txn<'_>) -> Done,
    },
    /// A script or a function, which locks for itself.
    Script(&'static ScriptCommand),
}

/// Bytes of replies after which a pipelined run ends: only its last reply may be longer.
pub const MOST_REPLY: usize = 64 * 1024;

/// Executes several requests of one command on one key together, as one change, each with its own
/// reply and effects, which begin with [`Call::begin_joined`]. Returns how many from the front;
/// none, with nothing changed, if the first must be executed by itself: in particular if the key
/// would be created or deleted. If it fails, or the replies have more than [`MOST_REPLY`] bytes,
/// all are executed one by one.
pub type RunJoined =
    for<'a> fn(&mut Call<'a>, &mut Txn<'_>, &[Words<'a>]) -> Result<usize, Failure>;

/// All words of a request.
pub type Words<'a> = &'a [&'a [u8]];

/// Takes the next step of a command that takes several. Returns true if that was the last one.
pub type TakeStep = fn(&Engine, &mut Session, &mut Walk) -> Result<bool, Failure>;

/// Returns the text of the script that the words of a request call.
pub type FindText = fn(&Engine, &[&[u8]]) -> Option<Arc<[u8]>>;

/// How a command runs scripts or functions, and what is known of one before it runs.
pub struct ScriptCommand {
    /// The kind of its scripts, which decides which command ends them.
    pub kind: ScriptKind,
    /// Runs it in a transaction of its own.
    pub alone: fn(&mut Call<'_>) -> Done,
    /// Runs it inside a transaction over all shards.
    pub within: fn(&mut Call<'_>, &mut Txn<'_>) -> Done,
    /// Returns the flags that the script called by these words declares, if it is known and
    /// declares any.
    pub declared: fn(&Engine, &[&[u8]]) -> Option<Flags>,
    /// Returns the text of the script that these words call by its name only: the cache may forget
    /// it before another thread runs it.
    pub text: FindText,
    /// Compiles such a text for this thread, so that it is found even if the cache forgets it.
    pub keep: fn(&Engine, &[u8]),
}

/// One execution of one command.
pub struct Call<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The connection.
    pub session: &'a mut Session,
    /// The command, from the table.
    pub command: &'a Command,
    /// All words of the request; a subcommand's name is the second.
    pub args: &'a [&'a [u8]],
    /// Its keys, hashed, in the order of its key specs.
    pub keys: &'a [Key<'a>],
    /// Where the reply goes.
    pub out: &'a mut Writer,
    /// Where its reply begins there.
    pub reply_from: usize,
    /// The time of the execution, in unix nanoseconds.
    pub now_ns: u64,
    /// The commands for the log and for replicas, and the messages for other clients.
    pub effects: &'a mut Effects,
    /// What follows the reply.
    pub next: Next,
    /// See [`Outcome::reply_after`].
    pub reply_after: u64,
    /// Whether the reply may end with a pinned string: not if other replies of the same transaction
    /// follow.
    pub may_pin: bool,
    /// Whether the client may be blocked: not by a command inside another.
    pub may_block: bool,
    /// The keys that the calling script declares.
    pub script_keys: Option<&'a [Key<'a>]>,
    /// Set if a script inside it takes long: all of it runs again on a thread of its own.
    pub long_script: Option<LongSince>,
    /// Whether a command that a script called has changed whole databases.
    pub changed_databases: bool,
    /// Whether it shows data although its command is not flagged as a read: function libraries, the
    /// details that DEBUG shows of keys.
    pub shows_data: bool,
    /// A large string that is the rest of the reply; it is copied after the locks were released.
    pub pinned: Option<Pinned>,
    /// How long this thread had waited for locks before this began.
    pub waited_ns: u64,
    /// The medium's losses before this began: its reads count only if there are no others.
    pub losses: Losses,
}

impl<'a> Call<'a> {
    /// Returns a call of a command; `crate::execute::Step::enter` gives it its words.
    pub fn new(
        engine: &'a Engine,
        session: &'a mut Session,
        command: &'a Command,
        out: &'a mut Writer,
        now_ns: u64,
        effects: &'a mut Effects,
    ) -> Call<'a> {
        Call {
            engine,
            session,
            command,
            args: &[],
            keys: &[],
            reply_from: out.len(),
            out,
            now_ns,
            effects,
            next: Next::Reply,
            reply_after: 0,
            may_pin: true,
            may_block: true,
            script_keys: None,
            long_script: None,
            changed_databases: false,
            shows_data: false,
            pinned: None,
            waited_ns: heap::waited_ns(),
            losses: engine.keyspace().losses(),
        }
    }

    /// Returns a call inside this one, in the same transaction: its reply is a part of this one's.
    pub fn inner(&mut self) -> Call<'_> {
        let Call { engine, session, command, out, now_ns, effects, .. } = self;
        Call {
            may_pin: false,
            may_block: false,
            ..Call::new(engine, session, command, out, *now_ns, effects)
        }
    }

    /// Returns true if it is a part of another call's transaction.
    pub fn is_inner(&self) -> bool {
        !self.may_block
    }

    /// Returns true if another thread can execute it again: it runs by itself, for a connection
    /// that can wait.
    pub fn may_move(&self) -> bool {
        self.session.can_wait() && !self.is_inner() && !self.blocks()
    }

    /// Returns true if it may wait for data. From the start, its connection handles its timeout and
    /// the departure of its client.
    fn blocks(&self) -> bool {
        let spec = self.command.spec;
        // Commands on streams wait only if they are asked to.
        let asks = |arg: &&[u8]| arg.eq_ignore_ascii_case(b"block");
        spec.has(BLOCKING) && (spec.group != Group::Stream || self.args.iter().any(asks))
    }

    /// Ends the command, to be executed by another thread, if it is about to do more than
    /// [`crate::table::spec::LONG`] units of work and can be moved.
    pub fn check_work(&self, units: u64) -> Done {
        if units > LONG && self.may_move() { Err(Failure::takes_long(None)) } else { Ok(()) }
    }

    /// Begins the effects of the next of several requests that are executed together.
    #[inline]
    pub fn begin_joined(&mut self, args: Words<'a>) {
        self.effects.end_group();
        self.args = args;
    }

    /// Returns true if a script calls this.
    pub fn is_from_script(&self) -> bool {
        self.script_keys.is_some()
    }

    /// Returns the length of its reply so far, in bytes.
    #[inline]
    pub(crate) fn reply_len(&self) -> usize {
        let pinned = self.pinned.as_ref().map_or(0, |pinned| pinned.len());
        self.out.len().saturating_sub(self.reply_from) + pinned
    }

    /// Returns the request's words, with secrets redacted.
    pub(crate) fn redacted_args(&self) -> Vec<&'a [u8]> {
        let mut words = self.args.to_vec();
        if let Some(redact) = self.command.spec.redact {
            redact(&mut words);
        }
        words
    }

    /// Returns the selected database.
    pub fn db(&self) -> Db {
        self.session.db
    }

    /// Returns the time of the execution, in unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ns / 1_000_000
    }

    /// Returns key number `n`, in the order of the key specs.
    pub fn key(&self, n: usize) -> Key<'a> {
        self.keys[n]
    }

    /// Sets its first key to the argument at `at`, which its specification names as a value. A
    /// large value was written to the heap before and is attached.
    #[inline]
    pub fn set_value(&self, txn: &mut Txn<'_>, at: usize, expire: Expire) -> Done {
        match txn.take_attached() {
            Some(prepared) => {
                txn.strings().set_prepared(self.db(), &self.key(0), *prepared, expire)?
            }
            None => txn.strings().set(self.db(), &self.key(0), self.args[at], expire)?,
        }
        Ok(())
    }

    /// Notes that data changed: the command goes into the log as it was given.
    pub fn wrote(&mut self) {
        self.wrote_as(self.args);
    }

    /// Notes that data changed: `args`, which has the same effect at any time, goes into the log.
    pub fn wrote_as(&mut self, args: &[&[u8]]) {
        self.engine.stats().changed(self.session.thread);
        self.propagate_as(args);
    }

    /// Puts the command into the log, though nothing has changed here: elsewhere there may be
    /// something to change.
    pub fn propagate(&mut self) {
        self.propagate_as(self.args);
    }

    fn propagate_as(&mut self, args: &[&[u8]]) {
        if self.engine.table().is_renamed() && std::ptr::eq(args[0], self.args[0]) {
            return self.push_original(args);
        }
        self.effects.push(self.session.db, args);
    }

    /// Adds a command to the log by its original name, which `rename-command` does not change.
    #[cold]
    fn push_original(&mut self, args: &[&[u8]]) {
        let mut args = args.to_vec();
        args[0] = self.command.first_word().as_bytes();
        self.effects.push(self.session.db, &args);
    }

    /// Notes an event of a key of the selected database.
    #[inline]
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &Key<'_>) {
        self.effects.notify(class, self.session.db, name, key.bytes());
    }

    /// Notes that something was taken from a key, and that the key is gone if nothing is left.
    #[inline]
    pub fn notify_taken(
        &mut self,
        class: EventClass,
        txn: &Txn<'_>,
        name: &'static str,
        key: &Key<'_>,
    ) {
        self.effects.notify_taken(class, txn, self.session.db, name, key);
    }

    /// Notes that a command stored its result in a key, or deleted the key if the result is empty.
    pub fn notify_stored(
        &mut self,
        class: EventClass,
        name: &'static str,
        key: &Key<'_>,
        is_empty: bool,
    ) {
        if is_empty {
            self.notify(EventClass::Generic, "del", key);
        } else {
            self.notify(class, name, key);
        }
    }

    /// Returns an argument as a 64-bit integer.
    pub fn int(&self, at: usize) -> Result<i64, Failure> {
        resp::number::parse_i64(self.arg(at)?).ok_or_else(|| crate::failure::NOT_INTEGER.into())
    }

    /// Returns an argument as a 32-bit integer.
    pub fn int32(&self, at: usize) -> Result<i32, Failure> {
        i32::try_from(self.int(at)?).map_err(|_| {
            let (min, max) = (i32::MIN, i32::MAX);
            Failure::text(format!("ERR value is out of range, value must between {min} and {max}"))
        })
    }

    /// Returns an argument; if it is missing, that is a syntax error.
    pub fn arg(&self, at: usize) -> Result<&'a [u8], Failure> {
        self.args.get(at).copied().ok_or_else(|| SYNTAX.into())
    }

    /// Returns true if an argument is this word, in any case.
    pub fn is(&self, at: usize, word: &str) -> bool {
        self.args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }
}
