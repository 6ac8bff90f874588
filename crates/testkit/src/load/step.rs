//! A step of one client: a command, a transaction from MULTI to EXEC, or a script.
//!
//! There are few keys, so that they are rewritten often, in several databases: two with keys of all
//! clients (0, 3), one of the client's own, which it may flush, and one for keys that expire while
//! the test runs ([`BRIEF`]).

use crate::load::model::{Bytes, FAR_AHEAD};
use fastrand::Rng;
use std::time::{SystemTime, UNIX_EPOCH};

/// A command as it is sent.
pub type Words = Vec<Vec<u8>>;

/// The database of keys that expire soon.
pub(crate) const BRIEF: u8 = 8;

/// The number of a client's keys in each database.
const KEYS: usize = 24;
/// The number of a client's keys that expire soon.
const BRIEF_KEYS: usize = 8;

/// The sizes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Usually small; one in some thousands has megabytes.
    Mixed,
    /// Up to hundreds of kilobytes, so that a small medium is soon full.
    Large,
}

/// A step of a client, in one database.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) db: u8,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Get(String),
    Set(String, Bytes),
    SetUntil(String, Bytes, i64),
    Incr(String),
    Append(String, Bytes),
    SetRange(String, usize, Bytes),
    Del(Vec<String>),
    GetDel(String),
    ExpireAt(String, i64),
    Persist(String),
    Rename(String, String),
    Copy(String, String, u8),
    Move(String, u8),
    MSet(Vec<(String, Bytes)>),
    MSetNx(Vec<(String, Bytes)>),
    FlushDb,
    Exec(Vec<Step>),
    Script(Vec<Step>, Calling),
}

/// How a script is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calling {
    /// By its text, with a key of each command declared.
    Declared,
    /// By its text, with no key declared.
    Undeclared,
    /// As a function of the client's library.
    Function,
}

/// The body of scripts: executes the commands in the arguments, each after its database and its
/// number of words, and returns the replies.
const BODY: &str = "\
    local replies, at = {}, 1 \
    while at <= #ARGV do \
        redis.call('select', ARGV[at]) \
        local count = tonumber(ARGV[at + 1]) \
        replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 2, at + 1 + count)) \
        at = at + count + 2 \
    end \
    return replies";

/// The number of different script texts: knowledge about one does not apply to the others.
const TEXTS: usize = 1000;

/// Returns the code of a client's library.
pub(crate) fn library(client: usize) -> Words {
    let code = format!(
        "#!lua name=client{client}\n\
         redis.register_function('client{client}', function(KEYS, ARGV) {BODY} end)"
    );
    words([b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()])
}

/// Returns the databases of a client; the last is its own.
pub(crate) fn databases(client: usize) -> [u8; 3] {
    [0, 3, 10 + client as u8 % 6]
}

/// Names of the keys that a client owns in a database.
pub(crate) fn keys(client: usize, db: u8) -> Vec<String> {
    let most = if db == BRIEF { BRIEF_KEYS } else { KEYS };
    let mut names: Vec<String> = (0..most).map(|n| format!("client{client}:key{n}")).collect();
    if db != BRIEF {
        names.push(counter(client));
    }
    names
}

fn counter(client: usize) -> String {
    format!("client{client}:counter")
}

/// Returns the time, in milliseconds.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

/// Makes a client's steps.
pub(crate) struct Maker<'r> {
    pub(crate) client: usize,
    /// True if its library is stored.
    pub(crate) has_library: bool,
    pub(crate) sizes: Sizes,
    pub(crate) random: &'r mut Rng,
}

impl Maker<'_> {
    fn key(&mut self) -> String {
        format!("client{}:key{}", self.client, self.random.usize(..KEYS))
    }

    fn keys(&mut self, most: usize) -> Vec<String> {
        (0..self.random.usize(1..most)).map(|_| self.key()).collect()
    }

    fn db(&mut self) -> u8 {
        databases(self.client)[[0, 0, 0, 1, 2, 2][self.random.usize(..6)]]
    }

    fn value(&mut self) -> Bytes {
        let length = match (self.sizes, self.random.u16(..4096)) {
            (Sizes::Large, _) => self.random.usize(..800_000),
            (_, 0..2) => self.random.usize(..4_000_000),
            (_, 2..34) => self.random.usize(..100_000),
            (_, 34..320) => self.random.usize(..6_000),
            (_, 320..1280) => self.random.usize(..600),
            _ => self.random.usize(..60),
        };
        let seed = self.random.u64(..).to_le_bytes();
        seed.into_iter().cycle().take(length).collect()
    }

    fn pairs(&mut self) -> Vec<(String, Bytes)> {
        self.keys(6).into_iter().map(|key| (key, self.value())).collect()
    }

    /// Makes a step or, two times in sixteen, several in a transaction or a script.
    pub(crate) fn step(&mut self) -> Step {
        let kind = self.random.u8(..16);
        if kind > 1 {
            return self.single();
        }
        let mut steps: Vec<Step> = (0..self.random.usize(1..5)).map(|_| self.single()).collect();
        let db = self.db();
        steps.push(Step { db, what: What::Incr(counter(self.client)) });
        let most = if self.has_library { 3 } else { 2 };
        let calling = [Calling::Declared, Calling::Undeclared, Calling::Function];
        match kind {
            0 => Step { db: steps[0].db, what: What::Exec(steps) },
            _ => Step { db, what: What::Script(steps, calling[self.random.usize(..most)]) },
        }
    }

    fn single(&mut self) -> Step {
        let (db, key) = (self.db(), self.key());
        let what = match self.random.u8(..32) {
            0..6 => What::Incr(counter(self.client)),
            6..8 => What::Append(key, self.value()),
            8..10 => What::SetRange(key, self.random.usize(..300), self.value()),
            10 => What::Del(self.keys(4)),
            11 => What::GetDel(key),
            12..14 => What::ExpireAt(key, FAR_AHEAD + i64::from(self.random.u32(..))),
            14 => What::ExpireAt(key, 1),
            15 => What::Persist(key),
            16 => What::Rename(key, self.key()),
            17 => What::Copy(key, self.key(), self.db()),
            18 => What::Move(key, self.db()),
            19..21 => What::MSet(self.pairs()),
            21 => What::MSetNx(self.pairs()),
            22..24 => What::Get(key),
            24 if self.random.u8(..8) == 0 => {
                return Step { db: databases(self.client)[2], what: What::FlushDb };
            }
            25 => return self.brief(),
            _ => What::Set(key, self.value()),
        };
        Step { db, what }
    }

    /// Returns a step on a key that expires soon: the key may exist or have expired, but does not
    /// last.
    fn brief(&mut self) -> Step {
        let key = format!("client{}:key{}", self.client, self.random.usize(..BRIEF_KEYS));
        let until = now() + self.random.i64(1..1500);
        let value = self.random.u64(..).to_le_bytes();
        Step { db: BRIEF, what: What::SetUntil(key, value.as_slice().into(), until) }
    }
}

fn words<const N: usize>(words: [&[u8]; N]) -> Words {
    words.map(<[u8]>::to_vec).to_vec()
}

fn number(n: impl ToString) -> Vec<u8> {
    n.to_string().into_bytes()
}

/// Makes a SELECT, unless the database is selected already.
fn select(db: u8, selected: &mut u8) -> Option<Words> {
    let changes = *selected != db;
    *selected = db;
    changes.then(|| words([b"SELECT", &number(db)]))
}

impl Step {
    /// Returns the commands to send; `selected` is the connection's database before and after.
    pub(crate) fn commands(&self, selected: &mut u8) -> Vec<Words> {
        let mut all: Vec<Words> = select(self.db, selected).into_iter().collect();
        let What::Exec(steps) = &self.what else {
            all.push(self.command());
            return all;
        };
        all.push(words([b"MULTI"]));
        for step in steps {
            all.extend(select(step.db, selected));
            all.push(step.command());
        }
        all.push(words([b"EXEC"]));
        // A transaction that is refused as a whole selects nothing: the selected database is then
        // unknown.
        *selected = u8::MAX;
        all
    }

    fn command(&self) -> Words {
        let of_keys = |name: &[u8], keys: &[String]| {
            let keys = keys.iter().map(|key| key.clone().into_bytes());
            [name.to_vec()].into_iter().chain(keys).collect()
        };
        let of_pairs = |name: &[u8], pairs: &[(String, Bytes)]| {
            let words = pairs.iter().flat_map(|(k, v)| [k.clone().into_bytes(), v.to_vec()]);
            [name.to_vec()].into_iter().chain(words).collect()
        };
        match &self.what {
            What::Get(k) => words([b"GET", k.as_bytes()]),
            What::Set(k, v) => words([b"SET", k.as_bytes(), v]),
            What::SetUntil(k, v, at) => words([b"SET", k.as_bytes(), v, b"PXAT", &number(at)]),
            What::Incr(k) => words([b"INCR", k.as_bytes()]),
            What::Append(k, v) => words([b"APPEND", k.as_bytes(), v]),
            What::SetRange(k, at, v) => words([b"SETRANGE", k.as_bytes(), &number(at), v]),
            What::Del(keys) => of_keys(b"DEL", keys),
            What::GetDel(k) => words([b"GETDEL", k.as_bytes()]),
            What::ExpireAt(k, at) => words([b"PEXPIREAT", k.as_bytes(), &number(at)]),
            What::Persist(k) => words([b"PERSIST", k.as_bytes()]),
            What::Rename(from, to) => words([b"RENAME", from.as_bytes(), to.as_bytes()]),
            What::Copy(from, to, db) => {
                let (from, to) = (from.as_bytes(), to.as_bytes());
                words([b"COPY", from, to, b"DB", &number(db), b"REPLACE"])
            }
            What::Move(k, db) => words([b"MOVE", k.as_bytes(), &number(db)]),
            What::MSet(pairs) => of_pairs(b"MSET", pairs),
            What::MSetNx(pairs) => of_pairs(b"MSETNX", pairs),
            What::FlushDb => words([b"FLUSHDB"]),
            What::Exec(_) => unreachable!("a transaction is several commands"),
            What::Script(steps, calling) => script(steps, *calling),
        }
    }
}

/// Returns the call of a script that executes these steps.
fn script(steps: &[Step], calling: Calling) -> Words {
    let commands: Vec<Words> = steps.iter().map(Step::command).collect();
    let keys: Words = match calling {
        Calling::Undeclared => Words::new(),
        _ => commands.iter().filter_map(|words| words.get(1).cloned()).collect(),
    };
    let owner = keys.first().map(|key| String::from_utf8_lossy(key).into_owned());
    let mut call = match (calling, owner.as_deref().and_then(|key| key.split(':').next())) {
        (Calling::Function, Some(owner)) => words([b"FCALL", owner.as_bytes()]),
        _ => words([b"EVAL", text(&commands).as_bytes()]),
    };
    call.push(number(keys.len()));
    call.extend(keys);
    for (step, command) in steps.iter().zip(commands) {
        call.extend([number(step.db), number(command.len())]);
        call.extend(command);
    }
    call
}

/// Returns one of the texts, chosen by the commands.
fn text(commands: &[Words]) -> String {
    let len = commands.iter().flatten().map(Vec::len).sum::<usize>();
    format!("#!lua\n-- {}\n{BODY}", len % TEXTS)
}
