//! The data, the changes of one client, and the requests of another one: from the command table.

use commands::Engine;
use commands::spec::{BLOCKING, CommandSpec, Group, READONLY, WRITE};
use commands::{Command, Run};
use fastrand::Rng;
use testkit::EACH_TYPE;

use super::generate;

/// A request.
pub(super) type Words = Vec<Vec<u8>>;

/// Replies that differ from run to run anyway.
const RANDOM: &[&str] = &["randomkey", "spop", "srandmember", "hrandfield", "zrandmember"];
/// Commands that show data though they are not flagged as reads.
const SHOW: &[&str] = &[
    "FUNCTION LIST WITHCODE",
    "FUNCTION DUMP",
    "FCALL f 0",
    "FCALL_RO f 0",
    "FUNCTION LOAD #!lua\u{a0}name=l\nredis.register_function('g',function()end)",
    "FUNCTION DELETE l",
    "DEBUG DIGEST",
    "DEBUG DIGEST FULL",
    "DBSIZE",
];
/// The same for a key.
const SHOW_KEY: &[&str] = &["DEBUG DIGEST-VALUE @", "DEBUG OBJECT @", "WATCH @"];
/// Requests that would wait for something other than the log.
const LEFT_OUT: &[&str] = &["migrate"];

/// Data in addition to a key of each type: one that expires, and another database.
const MORE_DATA: &[&str] = &["PEXPIREAT b 4102444800000", "SELECT 1", "SET other 1", "SELECT 0"];
const LIBRARY: &str = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
const LIBRARY_2: &str = "#!lua name=l\nredis.register_function('f', function() return 2 end)";

pub(super) fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns requests that create all the data from nothing.
pub(super) fn reset() -> Vec<Words> {
    let mut requests = vec![words("FLUSHALL SYNC"), words("FUNCTION FLUSH SYNC")];
    requests.extend(EACH_TYPE.iter().chain(MORE_DATA).map(|line| words(line)));
    requests.push(["FUNCTION", "LOAD", LIBRARY].map(Into::into).into());
    requests
}

pub(super) fn describe(requests: &[Words]) -> String {
    let line = |words: &Words| {
        words.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
    };
    requests.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Replaces each `@` by a key.
fn of_key(line: &str, key: &[u8]) -> Words {
    line.split(' ').map(|word| if word == "@" { key.to_vec() } else { word.into() }).collect()
}

fn is_key(word: &[u8]) -> bool {
    generate::keys_of_requests().any(|key| key.as_bytes() == word)
}

/// Returns a request for a command, and its name.
fn request(
    engine: &Engine,
    random: &mut Rng,
    fits: impl Fn(&CommandSpec) -> bool,
) -> (&'static str, Words) {
    let all: &[Command] = engine.table().all();
    loop {
        let command = &all[random.usize(..all.len())];
        let spec = command.spec;
        let is_about_data = spec.has(READONLY | WRITE)
            && !matches!(spec.group, Group::Transactions | Group::Connection);
        if matches!(spec.run, Run::Container)
            || !is_about_data
            || spec.has(BLOCKING)
            || LEFT_OUT.contains(&spec.name)
            || !fits(spec)
        {
            continue;
        }
        let words = match command.parent {
            Some(parent) => generate::sub_request(parent, spec, random),
            None => generate::request(spec, random),
        };
        return (spec.name, words);
    }
}

/// Returns a write that creates, changes or deletes a key.
fn write_to(engine: &Engine, key: &[u8], random: &mut Rng) -> Words {
    const WRITES: &[&str] = &[
        "DEL @",
        "UNLINK @",
        "SET @ w",
        "SET @ 5",
        "PEXPIREAT @ 1700000090000",
        "PEXPIREAT @ 4102444900000",
        "PERSIST @",
        "RPUSH @ zz",
        "HSET @ zz 1 hello w",
        "SADD @ zz",
        "ZADD @ 4 zz",
        "XADD @ 5-9 f v",
        "MOVE @ 1",
        "RENAME @ elsewhere",
        "COPY a @ REPLACE",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 1",
    ];
    if random.bool() {
        return of_key(WRITES[random.usize(..WRITES.len())], key);
    }
    let (_, mut words) = request(engine, random, |spec| spec.has(WRITE));
    words[1..].iter_mut().filter(|word| is_key(word)).for_each(|word| *word = key.to_vec());
    words
}

/// Returns a write that concerns no particular key.
fn write_to_all(engine: &Engine, random: &mut Rng) -> Words {
    let keys: Vec<&str> = generate::keys_of_requests().collect();
    match random.u8(..6) {
        0 => ["FUNCTION", "LOAD", "REPLACE", LIBRARY_2].map(Into::into).into(),
        1 => words("FUNCTION DELETE l"),
        2 => words("FUNCTION FLUSH"),
        _ => write_to(engine, keys[random.usize(..keys.len())].as_bytes(), random),
    }
}

/// The requests of one client around the write of another.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) before: Vec<Words>,
    pub(super) write: Vec<Words>,
    pub(super) after: Vec<Words>,
}

/// Returns a request that shows something, its name, and a key that it shows.
fn shows(engine: &Engine, random: &mut Rng) -> Option<(&'static str, Words, Option<Vec<u8>>)> {
    let keys: Vec<&str> = generate::keys_of_requests().collect();
    let any = |random: &mut Rng| keys[random.usize(..keys.len())].as_bytes().to_vec();
    match random.u8(..24) {
        0 => {
            let line = SHOW[random.usize(..SHOW.len())];
            let mut words = words(line);
            // The space in the first line of a library.
            words.iter_mut().for_each(|word| {
                let text = String::from_utf8_lossy(word).replace('\u{a0}', " ");
                *word = text.into();
            });
            return Some((line, words, None));
        }
        1 => {
            let (line, key) = (SHOW_KEY[random.usize(..SHOW_KEY.len())], any(random));
            return Some((line, of_key(line, &key), Some(key)));
        }
        _ => {}
    }
    let (name, words) = request(engine, random, |_| true);
    let named: Vec<&Vec<u8>> = words[1..].iter().filter(|word| is_key(word)).collect();
    if named.is_empty() && RANDOM.contains(&name) {
        return None;
    }
    let key = (!named.is_empty()).then(|| named[random.usize(..named.len())].clone());
    Some((name, words, key))
}

fn exec(requests: &[Words]) -> Vec<Words> {
    [&[words("MULTI")], requests, &[words("EXEC")]].concat()
}

/// Returns a script that calls a request; with its keys declared, none, or another one; ended by an
/// error or not.
fn script(request: &Words, random: &mut Rng) -> Words {
    let call = if random.bool() { "call" } else { "pcall" };
    let text = format!("return redis.{call}(unpack(ARGV))");
    let keys: Vec<Vec<u8>> = match random.u8(..3) {
        0 => Vec::new(),
        1 => vec![b"nothing".to_vec()],
        _ => request[1..].iter().filter(|word| is_key(word)).cloned().collect(),
    };
    let head = [b"EVAL".to_vec(), text.into(), keys.len().to_string().into_bytes()];
    [&head[..], &keys, request].concat()
}

/// Returns requests with a write by itself, or among others.
fn in_some_way(write: Words, random: &mut Rng) -> Vec<Words> {
    match random.u8(..6) {
        0 => exec(&[write]),
        1 => vec![script(&write, random)],
        2 => vec![words("GET nothing"), write, words("EXISTS nothing")],
        3 => exec(&[write, words("GET nothing")]),
        _ => vec![write],
    }
}

/// Returns requests that write to some key.
pub(super) fn write_to_any(engine: &Engine, random: &mut Rng) -> Vec<Words> {
    let keys: Vec<&str> = generate::keys_of_requests().collect();
    let write = write_to(engine, keys[random.usize(..keys.len())].as_bytes(), random);
    in_some_way(write, random)
}

/// Returns a case: a request, whose reply comes about in one of several ways, and a write to one of
/// its keys.
pub(super) fn case(engine: &Engine, random: &mut Rng) -> Option<Case> {
    let (name, asks, key) = shows(engine, random)?;
    let write = match &key {
        Some(key) => write_to(engine, key, random),
        None => write_to_all(engine, random),
    };
    let write = in_some_way(write, random);
    let mut before = if random.bool() { vec![words("HELLO 3")] } else { Vec::new() };
    let after = match random.u8(..12) {
        0 => exec(&[asks]),
        1 => exec(&[words("PING"), asks, words("ECHO x")]),
        2 => {
            let watched = key.unwrap_or_else(|| b"a".to_vec());
            before.push(vec![b"WATCH".to_vec(), watched]);
            exec(&[words("PING")])
        }
        3 => vec![script(&asks, random)],
        4 => exec(&[script(&asks, random)]),
        5 => vec![words("PING"), asks, words("ECHO x")],
        6 => vec![words("GET nothing"), asks, words("EXISTS none")],
        7 => vec![asks, words("PING"), words("GET nothing"), words("EXISTS none")],
        _ => vec![asks],
    };
    Some(Case { name, before, write, after })
}
