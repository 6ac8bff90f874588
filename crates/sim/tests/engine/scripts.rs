//! Scripts, and functions of libraries: several commands in one transaction.
//!
//! One body serves both: it executes the commands in its arguments. It may pause after one of them,
//! so that it is moved to a separate thread and perhaps killed there, and it may end with an error
//! after one of them. Its reply, or that error, tells which commands succeeded. It sends one
//! message, which is delivered once each time that it counts.

use super::generate::Taste;
use super::journal::{self, TestClock, Words};
use super::replies::{bulk, elements, is_error};
use super::state::brief;
use commands::admin::{Facts, Host};
use commands::{Engine, Failure, Job, Peer, Session, Settings};
use fastrand::Rng;
use resp::{Protocol, Writer};
use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Arguments: the channel of its message; after how many commands it pauses, and after how many it
/// fails (0: never); the commands, each after its number of words. A pause takes more instructions
/// than a script may execute between two checks of its running time.
const BODY: &str = "\
    redis.call('publish', ARGV[1], 'a script') \
    local replies, done, at = {}, {}, 4 \
    while at <= #ARGV do \
        local count = tonumber(ARGV[at]) \
        local reply = redis.pcall(unpack(ARGV, at + 1, at + count)) \
        replies[#replies + 1] = reply \
        if type(reply) ~= 'table' or not reply.err then done[#done + 1] = #replies end \
        if #replies == tonumber(ARGV[2]) then for i = 1, 60000 do end end \
        if #replies == tonumber(ARGV[3]) then error('done ' .. table.concat(done, ' ')) end \
        at = at + count + 1 \
    end \
    return replies";

/// Number of libraries of each owner.
const LIBRARIES: usize = 2;

/// Which keys a script declares.
#[derive(Clone, Copy, Debug)]
enum Declared {
    Nothing,
    /// The key of its first command.
    First,
    /// The keys of each command; some have more than one.
    Each,
}

/// Several commands in one transaction.
pub(crate) struct Script {
    pub(crate) commands: Vec<(Words, &'static str)>,
    declared: Declared,
    /// The function to call; `None` for EVAL.
    function: Option<String>,
    /// It pauses after this many commands; 0: never.
    pauses_after: usize,
    fails_after: usize,
    /// It is killed when it has been moved.
    is_killed: bool,
}

impl Script {
    pub(crate) fn draw(
        commands: Vec<(Words, &'static str)>,
        taste: &Taste,
        may_pause: bool,
        rng: &mut Rng,
    ) -> Script {
        let mut after = |one_in| match rng.usize(..one_in) {
            0 => rng.usize(1..=commands.len()),
            _ => 0,
        };
        let (fails_after, pauses_after) = (after(4), after(if may_pause { 4 } else { usize::MAX }));
        Script {
            declared: [Declared::Nothing, Declared::First, Declared::Each][rng.usize(..3)],
            function: (rng.usize(..3) == 0).then(|| function(taste, rng)),
            pauses_after,
            fails_after,
            is_killed: rng.bool(),
            commands,
        }
    }

    /// Returns true if it should be moved to a separate thread.
    pub(crate) fn pauses(&self) -> bool {
        self.pauses_after > 0
    }

    /// Returns the names of its commands.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let calls = if self.function.is_some() { "fcall" } else { "eval" };
        self.commands.iter().map(|(_, name)| *name).chain([calls])
    }

    /// Returns the request to send.
    pub(crate) fn words(&self, channel: &str) -> Words {
        let keys = self.commands.iter().filter_map(|(words, _)| words.get(1));
        let most = match self.declared {
            Declared::Nothing => 0,
            Declared::First => 1,
            Declared::Each => usize::MAX,
        };
        let keys: Words = keys.take(most).cloned().collect();
        let [command, what] = match &self.function {
            Some(function) => ["FCALL", function],
            None => ["EVAL", BODY],
        };
        let mut words: Words = [command.into(), what.into(), number(keys.len())].into();
        words.extend(keys);
        words.extend([channel.into(), number(self.pauses_after), number(self.fails_after)]);
        for (command, _) in &self.commands {
            words.push(number(command.len()));
            words.extend(command.iter().cloned());
        }
        words
    }

    /// Returns the commands that succeeded, with their replies if it has any. `None` if none of it
    /// counts: it was refused or killed.
    pub(crate) fn done<'a>(&'a self, reply: &'a [u8]) -> Option<Vec<(&'a Words, &'a [u8])>> {
        let commands = self.commands.iter().map(|(words, _)| words);
        if reply.first() == Some(&b'*') {
            let both = commands.zip(elements(reply));
            return Some(both.filter(|(_, reply)| !is_error(reply)).collect());
        }
        let text = str::from_utf8(reply).ok()?;
        let (_, done) = text.split_once(": done ")?;
        let numbers = done.split(' ').map_while(|word| word.parse::<usize>().ok());
        let commands: Vec<&Words> = commands.collect();
        Some(numbers.map(|n| (commands[n - 1], &b""[..])).collect())
    }

    /// Returns its outcome in a word.
    pub(crate) fn outcome(&self, reply: &[u8]) -> &'static str {
        match self.done(reply) {
            Some(_) if is_error(reply) => "a script that failed",
            Some(_) if self.function.is_some() => "a function",
            Some(_) => "a script",
            None if reply.windows(9).any(|bytes| bytes == b"killed by") => "a killed script",
            None => "a script that was refused",
        }
    }

    /// Prepares what happens during the next request, of which this is a part.
    pub(crate) fn set_up(&self) {
        let container = if self.function.is_some() { "FUNCTION" } else { "SCRIPT" };
        set_up(self.pauses(), self.is_killed.then_some(container));
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.function.as_deref().unwrap_or("script");
        write!(f, "{what} declares {:?}, ", self.declared)?;
        if self.pauses() {
            write!(f, "pauses after {}, killed {}, ", self.pauses_after, self.is_killed)?;
        }
        write!(f, "fails after {}:", self.fails_after)?;
        let line =
            |words: &Words| words.iter().map(|word| brief(word)).collect::<Vec<_>>().join(" ");
        self.commands.iter().try_for_each(|(words, _)| write!(f, " {};", line(words)))
    }
}

fn number(value: usize) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Returns the name of one of the owner's libraries.
pub(crate) fn library(taste: &Taste, rng: &mut Rng) -> String {
    let owner = taste.owner.map_or("all".into(), |owner| owner.to_string());
    format!("library_{owner}_{}", rng.usize(..LIBRARIES))
}

fn function(taste: &Taste, rng: &mut Rng) -> String {
    library(taste, rng).replace("library", "function")
}

/// Returns the code of a library, with some text that does nothing.
pub(crate) fn code(library: &str, text: &str) -> Vec<u8> {
    let function = library.replace("library", "function");
    let register =
        format!("redis.register_function('{function}', function(KEYS, ARGV) {BODY} end)");
    format!("#!lua name={library}\n-- {text}\n{register}").into_bytes()
}

/// Returns the name at the start of a library's code.
pub(crate) fn name_in(code: &[u8]) -> Vec<u8> {
    let line = code.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_prefix(b"#!lua name=").unwrap_or_default().to_vec()
}

/// Returns what FUNCTION DUMP returns for two libraries.
pub(crate) fn dump(taste: &Taste, text: &str, rng: &mut Rng) -> Vec<u8> {
    let engine = journal::volatile_engine(TestClock::at(0)).expect("an engine in memory");
    let mut session = engine.connect(Peer::default(), 0);
    let mut writer = Writer::new(Protocol::Resp2);
    for _ in 0..2 {
        let code = code(&library(taste, rng), text);
        let _ =
            engine.execute(&mut session, &[b"FUNCTION", b"LOAD", b"REPLACE", &code], &mut writer);
    }
    writer.take();
    let _ = engine.execute(&mut session, &[b"FUNCTION", b"DUMP"], &mut writer);
    bulk(&writer.take()).to_vec()
}

thread_local! {
    /// A script that should run on a separate thread.
    static MOVED: Cell<Option<Job>> = const { Cell::new(None) };
    /// The container of the KILL that is sent when the script has been listed.
    static KILL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Lets long scripts of this engine be moved: to the same thread, since another one could not be
/// scheduled.
pub(crate) fn let_them_move(engine: &Arc<Engine>) {
    let own = engine.set_host(Arc::new(Server(Arc::downgrade(engine))));
    let moved = engine.set_spawn(|_, job| {
        MOVED.set(Some(job));
        true
    });
    assert!(own && moved, "it is the engine's first host");
    let settings = engine.config().settings();
    engine.config().store(Settings { script_kill_rollback: true, ..settings });
}

/// Runs the script that was moved. The reply to the request of `session` goes to `writer`.
pub(crate) fn run_moved(engine: &Engine, session: &mut Session, writer: &mut Writer) {
    TestClock::stop();
    let job = MOVED.take().expect("a script was moved");
    job(engine);
    let _ = engine.unblocked(session, writer).expect("the script has left its reply");
}

/// Prepares what happens during the next request: a script that pauses takes long, and is killed by
/// a KILL of this container.
pub(crate) fn set_up(pauses: bool, kill: Option<&'static str>) {
    if pauses {
        TestClock::run();
    }
    KILL.set(kill);
}

/// Undoes [`set_up`].
pub(crate) fn end_request() {
    TestClock::stop();
    KILL.set(None);
}

/// A server that only waits, while others run.
struct Server(Weak<Engine>);

impl Host for Server {
    fn config_matching(&self, _: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        Vec::new()
    }
    fn config_set(&self, _: &[(&[u8], &[u8])], _: bool) -> Result<(), Failure> {
        Ok(())
    }
    fn config_rewrite(&self, _: bool) -> Result<(), Failure> {
        Ok(())
    }
    fn allows_debug(&self, _: bool) -> bool {
        false
    }
    fn reset_stats(&self) {}
    fn facts(&self) -> Facts {
        Facts::default()
    }
    fn rewrite_log(&self, _: bool) -> Result<String, Failure> {
        Ok(String::new())
    }
    fn save(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn save_locked(&self, _: &mut commands::admin::SaveLocked<'_>) -> Result<(), Failure> {
        Ok(())
    }
    fn open_dump(&self) -> Result<Option<Box<dyn std::io::BufRead>>, Failure> {
        Ok(None)
    }
    fn save_in_background(&self, _: bool) -> Result<String, Failure> {
        Ok(String::new())
    }
    fn prepare_shutdown(&self, _: bool, _: bool, _: bool) -> Result<(), Failure> {
        Ok(())
    }
    fn open_log(&self) -> Result<Option<aof::Loader>, Failure> {
        Ok(None)
    }
    fn set_active_expire(&self, _: bool) {}
    fn set_cron(&self, _: bool) {}
    fn log(&self, _: &str) {}

    /// A moved script waits before it runs: then it is killed.
    fn sleep(&self, _: Duration) {
        if !TestClock::is_running()
            && let Some(container) = KILL.take()
            && let Some(engine) = self.0.upgrade()
        {
            let mut session = engine.connect(Peer::default(), 0);
            let mut writer = Writer::new(Protocol::Resp2);
            let _ = engine.execute(&mut session, &[container.as_bytes(), b"KILL"], &mut writer);
            engine.disconnect(&mut session);
        }
        sim::yield_now();
    }
}
