//! FUNCTION and FCALL: replies as redis-server gives them. Libraries exist after a restart, a
//! rewrite of the log, and a reload, but not after a failed change.

use std::sync::Arc;

use crate::support::wire::{Remote, Reply, describe, parse, show};
use crate::support::{Client, MemoryLog, emulated, engine, requests, volatile};
use aof::{Loader, Options};
use commands::{Engine, EngineOptions};
use keyspace::Keyspace;
use testkit::Launch;

/// The code of a library with functions that return their number.
fn library(name: &str, functions: &[&str]) -> String {
    functions.iter().enumerate().fold(format!("#!lua name={name}\n"), |code, (n, function)| {
        code + &format!("redis.register_function('{function}', function() return {n} end)\n")
    })
}

/// The words of a line; `@name:f:g` is the code of a library, `~` a newline within a word, `_` a
/// space.
fn words(line: &str) -> Vec<Vec<u8>> {
    let word = |word: &str| match word.strip_prefix('@') {
        Some(parts) => {
            let mut parts = parts.split(':');
            let name = parts.next().unwrap_or_default();
            library(name, &parts.collect::<Vec<_>>()).into_bytes()
        }
        None => word.replace('~', "\n").replace("%", " ").into_bytes(),
    };
    line.split_whitespace().map(word).collect()
}

fn run(client: &mut Client, line: &str) -> String {
    show(&client.raw(&words(line)))
}

#[track_caller]
fn check(client: &mut Client, line: &str, expected: &str) {
    assert_eq!(run(client, line), expected, "{line}");
}

/// Lines whose replies must be those of redis-server. At most one library is listed at a time, and
/// at most one function of each: redis-server lists them in the order of a table.
const LINES: &[&str] = &[
    "FUNCTION",
    "FUNCTION NOSUCH",
    "FUNCTION HELP",
    "FUNCTION KILL",
    "FUNCTION STATS",
    "FUNCTION LIST",
    "FUNCTION DUMP",
    "FUNCTION LOAD",
    "FUNCTION LOAD x",
    "FUNCTION LOAD REPLACE",
    "FUNCTION LOAD wrong x",
    "FUNCTION LOAD #!lua%name=a",
    "FUNCTION LOAD #!js%name=a~x",
    "FUNCTION LOAD #!%name=a~x",
    "FUNCTION LOAD #!~x",
    "FUNCTION LOAD #!lua%name=\"a~x",
    "FUNCTION LOAD #!lua%name=\"a-b\"~x",
    "FUNCTION LOAD #!lua%name='a'~x",
    "FUNCTION LOAD #!lua%name=a%lua~x",
    "EVAL #!lua%\"flags=no-writes\"~return%1 0",
    "EVAL #!\"lua\"~return%1 0",
    "EVAL #!lua%\"flags~return%1 0",
    "EVAL #!~return%1 0",
    "EVAL #!lua%flags=no-writes,%~return%1 0",
    "FUNCTION LOAD #!lua%nam=a~x",
    "FUNCTION LOAD #!lua~x",
    "FUNCTION LOAD #!lua%name=a%name=b~x",
    "FUNCTION LOAD #!lua%name=a-b~x",
    "FUNCTION LOAD #!lua%name=~x",
    "FUNCTION LOAD #!lua%name=a~return%1",
    "FUNCTION LOAD #!lua%name=a~return%",
    "FUNCTION LOAD #!lua%name=a~return%)",
    "FUNCTION LOAD #!lua%name=a~redis.call('get','x')",
    "FUNCTION LOAD #!lua%name=a~return%math.random()",
    "FUNCTION LOAD #!lua%name=a~local%x=pairs",
    "FUNCTION LOAD #!lua%name=a~return%_G",
    "FUNCTION LOAD #!lua%name=a~redis.redis.call('ping')",
    "FUNCTION LOAD #!lua%name=a~a=1",
    "FUNCTION LOAD #!lua%name=a~redis.register_function('f',1)",
    "FUNCTION LOAD #!lua%name=a~redis.register_function('f-g',function()%end)",
    "FUNCTION LOAD #!lua%name=a~redis.register_function{function_name='f',callback=function()%end,flags={'nosuch'}}",
    "FUNCTION LOAD #!lua%name=a~while%true%do%end",
    "FUNCTION LOAD @one:f",
    "FUNCTION LOAD @one:f",
    "FUNCTION LOAD REPLACE REPLACE @one:f",
    "FUNCTION LOAD @two:f",
    "FUNCTION LOAD @two:F",
    "FUNCTION LIST",
    "FUNCTION LIST WITHCODE",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST LIBRARYNAME o* WITHCODE",
    "FUNCTION LIST withcode libraryname ONE",
    "FUNCTION LIST LIBRARYNAME x*",
    "FUNCTION LIST nosuch",
    "FUNCTION LIST WITHCODE WITHCODE",
    "FUNCTION LIST LIBRARYNAME one LIBRARYNAME one",
    "FUNCTION STATS",
    "FUNCTION STATS x",
    "FUNCTION DUMP x",
    "FUNCTION DUMP",
    "FCALL",
    "FCALL f",
    "FCALL f 0",
    "FCALL F 0",
    "FCALL nosuch 0",
    "FCALL nosuch x",
    "FCALL f x",
    "FCALL f -1",
    "FCALL f 3 a",
    "FCALL f 1 a b",
    "FCALL_RO f 0",
    "FCALL_RO nosuch 0",
    "FUNCTION DELETE",
    "FUNCTION DELETE ONE",
    "FUNCTION DELETE one",
    "FCALL f 0",
    "FUNCTION DELETE one",
    "FUNCTION LOAD #!lua%name=a~redis.register_function{function_name='f',callback=function(keys,args)%return%{keys[1],args[1],#keys,#args}%end,flags={'no-writes','allow-oom'},description='text'}",
    "FUNCTION LIST",
    "FCALL_RO f 1 k v w",
    "FCALL f 2 k v w",
    "FUNCTION LOAD REPLACE #!lua%name=a~redis.register_function('f',function(keys,args)%return%redis.call(unpack(args))%end)",
    "FCALL f 1 k SET k v",
    "FCALL f 1 k GET k",
    "FCALL f 1 k INCR k",
    "FCALL f 0 NOSUCH",
    "FCALL f 0 FUNCTION FLUSH",
    "FCALL f 0 FCALL f 0",
    "FCALL f 0 EVAL return%1 0",
    "FCALL_RO f 1 k GET k",
    "FUNCTION LOAD REPLACE #!lua%name=a~redis.register_function{function_name='f',callback=function(keys,args)%return%redis.call(unpack(args))%end,flags={'no-writes'}}",
    "FCALL f 1 k SET k v",
    "FCALL_RO f 1 k GET k",
    "FUNCTION LOAD REPLACE #!lua%name=a~redis.register_function('f',function()%error('text')%end)",
    "FUNCTION LOAD REPLACE #!lua%name=a~redis.register_function('f',function()%local%x=nil~return%x.y%end)",
    "FCALL f 0",
    "EVAL return%redis.call('FCALL','f',0) 0",
    "MULTI",
    "FUNCTION LOAD @four:x:y",
    "FCALL y 0",
    "FUNCTION DELETE four",
    "FCALL y 0",
    "FUNCTION STATS",
    "EXEC",
    "FLUSHALL",
    "FUNCTION STATS",
    "FUNCTION FLUSH x",
    "FUNCTION FLUSH SYNC x",
    "FUNCTION FLUSH SYNC",
    "FUNCTION FLUSH async",
    "FUNCTION FLUSH",
    "FUNCTION STATS",
    "FUNCTION RESTORE",
    "FUNCTION RESTORE x",
    "FUNCTION RESTORE x y",
    "FUNCTION RESTORE x y z",
    "COMMAND INFO FUNCTION FCALL FCALL_RO",
    "COMMAND GETKEYS FCALL f 2 a b c",
];

#[test]
fn functions_answer_as_redis_does() {
    let server = Launch::redis().start();
    let mut theirs = Remote::connect(server.address());
    let engine = engine();
    let mut ours = Client::new(&engine);
    for protocol in ["2", "3"] {
        for line in [&format!("HELLO {protocol}"), "FUNCTION FLUSH", "FLUSHALL"] {
            theirs.call(&words(line));
            ours.raw(&words(line));
        }
        for line in LINES {
            let expected = describe(&theirs.call(&words(line)));
            let found = run(&mut ours, line);
            // A subcommand is listed in the order of a table.
            let same = match line.starts_with("COMMAND INFO") {
                true => sorted(&found) == sorted(&expected),
                false => found == expected,
            };
            assert!(same, "RESP{protocol} {line}\n{found}\nis not\n{expected}");
        }
    }
}

fn sorted(text: &str) -> Vec<char> {
    let mut all: Vec<char> = text.chars().collect();
    all.sort_unstable();
    all
}

/// The result of FUNCTION DUMP for these records.
fn payload(records: &[u8]) -> Vec<u8> {
    let mut payload = records.to_vec();
    rdb::payload::append_footer(&mut payload, rdb::VERSION);
    payload
}

/// The record of a library.
fn record(name: &str, functions: &[&str]) -> Vec<u8> {
    let mut writer = rdb::Writer::new(Vec::new(), false);
    writer.function(library(name, functions).as_bytes()).expect("memory");
    writer.into_inner()
}

#[test]
fn restore_answers_as_redis_does_and_changes_all_or_nothing() {
    let server = Launch::redis().start();
    let mut theirs = Remote::connect(server.address());
    let mut ours = Client::new(&engine());
    let (x, y) = (record("x", &["a"]), record("y", &["a"]));
    let cases: &[(Vec<u8>, &str)] = &[
        (vec![], ""),
        (vec![0, 1, 1], ""),
        (vec![245], ""),
        (b"\xf5\x20abc".to_vec(), ""),
        (vec![245, 255, 1], ""),
        (vec![245, 3, b'f', b'o', b'o'], ""),
        (record("x", &[]), ""),
        ([record("x", &["a"]), record("x", &["b"])].concat(), ""),
        ([x.clone(), y.clone()].concat(), ""),
        (x.clone(), ""),
        (x.clone(), "APPEND"),
        (y.clone(), "REPLACE"),
        (record("x", &["b"]), "replace"),
        ([record("x", &["c"]), record("y", &["b"])].concat(), "REPLACE"),
        ([record("z", &["zz"]), vec![0]].concat(), "FLUSH"),
        ([record("z", &["zz"]), record("v", &[])].concat(), "FLUSH"),
        ([record("z", &["b"]), record("y", &["d"])].concat(), "APPEND"),
        ([record("z", &["b"]), record("x", &["d"])].concat(), "REPLACE"),
        (y, "flush"),
        (x, "nosuch"),
        (vec![], "FLUSH"),
    ];
    let list = words("FUNCTION LIST WITHCODE");
    for (records, policy) in cases {
        let mut request = vec![b"FUNCTION".to_vec(), b"RESTORE".to_vec(), payload(records)];
        request.extend((!policy.is_empty()).then(|| policy.as_bytes().to_vec()));
        let expected = describe(&theirs.call(&request));
        let what = format!("{policy} {}", records.escape_ascii());
        assert_eq!(show(&ours.raw(&request)), expected, "{what}");
        let (found, expected) = (show(&ours.raw(&list)), describe(&theirs.call(&list)));
        assert_eq!(sorted(&found), sorted(&expected), "{what}\n{found}\nis not\n{expected}");
    }
}

#[test]
fn a_damaged_payload_changes_nothing() {
    let mut client = Client::new(&engine());
    check(&mut client, "FUNCTION LOAD @kept:f", "\"kept\"");
    check(&mut client, "FUNCTION LOAD @other:g:h", "\"other\"");
    let dump = client.raw(&words("FUNCTION DUMP"));
    let at = dump.iter().position(|byte| *byte == b'\n').expect("a bulk") + 1;
    let dump = dump[at..dump.len() - 2].to_vec();
    let before = run(&mut client, "FUNCTION LIST WITHCODE");
    let mut restore = |payload: &[u8]| {
        let reply = show(&client.raw(&[&b"FUNCTION"[..], b"RESTORE", payload, b"FLUSH"]));
        (reply, run(&mut client, "FUNCTION LIST WITHCODE"))
    };
    for at in 0..dump.len() {
        let mut bytes = dump.clone();
        bytes[at] ^= 1 << (at % 8);
        let (reply, after) = restore(&bytes);
        assert_eq!(reply, "(error) ERR DUMP payload version or checksum are wrong", "byte {at}");
        assert_eq!(after, before);
        let (reply, _) = restore(&dump[..at]);
        assert_eq!(reply, "(error) ERR DUMP payload version or checksum are wrong", "{at} bytes");
        // With a new checksum, the content is validated: the payload is refused as a whole, or
        // sound.
        let mut bytes = bytes[..dump.len() - rdb::payload::FOOTER].to_vec();
        rdb::payload::append_footer(&mut bytes, rdb::VERSION);
        let (reply, after) = restore(&bytes);
        assert!(reply == "OK" || after == before, "byte {at}: {reply}");
        assert_eq!(restore(&dump), ("OK".to_owned(), before.clone()));
    }
}

#[test]
fn what_redis_dumps_is_restored_and_the_other_way_round() {
    let server = Launch::redis().start();
    let mut theirs = Remote::connect(server.address());
    let mut ours = Client::new(&engine());
    for line in ["FUNCTION LOAD @one:f:g", "FUNCTION LOAD @two:h"] {
        theirs.call(&words(line));
    }
    let Reply::Bulk(_, Some(dump)) = theirs.call(&words("FUNCTION DUMP")) else {
        panic!("no dump");
    };
    check(&mut ours, "FUNCTION LOAD @three:f", "\"three\"");
    assert_eq!(show(&ours.raw(&[&b"FUNCTION"[..], b"RESTORE", &dump[..], b"FLUSH"])), "OK");
    check(&mut ours, "FCALL g 0", "(integer) 1");
    check(&mut ours, "FUNCTION DELETE one", "OK");
    let Reply::Bulk(_, Some(dump)) = parse(&ours.raw(&words("FUNCTION DUMP"))) else {
        panic!("no dump");
    };
    assert_eq!(describe(&theirs.call(&[&b"FUNCTION"[..], b"RESTORE", &dump[..], b"FLUSH"])), "OK");
    let (ours, theirs) =
        (run(&mut ours, "FUNCTION LIST WITHCODE"), theirs.call(&words("FUNCTION LIST WITHCODE")));
    assert_eq!(ours, describe(&theirs));
}

#[test]
fn libraries_are_there_after_a_restart_and_for_each_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let start = || Arc::new(Engine::new(EngineOptions::new(emulated(&path, 3))));
    let first = start();
    let mut client = Client::new(&first);
    for n in 0..40 {
        let line = format!("FUNCTION LOAD @library_{n}:f{n}:g{n}");
        check(&mut client, &line, &format!("\"library_{n}\""));
    }
    check(&mut client, "FUNCTION DELETE library_7", "OK");
    check(&mut client, "FUNCTION LOAD REPLACE @library_8:f8:f7:h", "\"library_8\"");
    let list = run(&mut client, "FUNCTION LIST WITHCODE");
    drop((client, first));
    // Not closed, as after a kill.
    let second = start();
    let mut client = Client::new(&second);
    check(&mut client, "FCALL f7 0", "(integer) 1");
    check(&mut client, "FCALL g7 0", "(error) ERR Function not found");
    assert_eq!(run(&mut client, "FUNCTION LIST WITHCODE"), list);
    assert_eq!(second.keyspace().check().expect("a sound pool").libraries, 39);
    std::thread::scope(|scope| {
        for n in [1, 20, 39] {
            let second = &second;
            scope.spawn(move || {
                let mut client = Client::new(second);
                check(&mut client, &format!("FCALL g{n} 0"), "(integer) 1");
                check(&mut client, "FCALL h 0", "(integer) 2");
            });
        }
    });
    check(&mut client, "FUNCTION FLUSH", "OK");
    let other = std::thread::spawn(move || run(&mut Client::new(&second), "FCALL h 0"));
    assert_eq!(other.join().expect("a reply"), "(error) ERR Function not found");
    check(&mut client, "FUNCTION LIST", "[]");
}

#[test]
fn a_thread_calls_the_new_code_of_a_library_that_another_replaced() {
    let engine = engine();
    let mut client = Client::new(&engine);
    check(&mut client, "FUNCTION LOAD @one:f", "\"one\"");
    check(&mut client, "FCALL f 0", "(integer) 0");
    let other = Arc::clone(&engine);
    let replaced =
        std::thread::spawn(move || run(&mut Client::new(&other), "FUNCTION LOAD REPLACE @one:g:f"));
    assert_eq!(replaced.join().expect("a reply"), "\"one\"");
    check(&mut client, "FCALL f 0", "(integer) 1");
    check(&mut client, "FCALL g 0", "(integer) 0");
}

/// Executes the commands of a log in an empty engine, and returns the reply to FUNCTION LIST there.
fn replayed(log: &MemoryLog) -> String {
    let engine = engine();
    let session = engine.connect_replay();
    let mut replay = Client::of(&engine, session);
    for request in requests(&log.bytes()) {
        let reply = show(&replay.raw(&request));
        assert!(!reply.starts_with("(error)"), "{reply}");
    }
    run(&mut Client::new(&engine), "FUNCTION LIST WITHCODE")
}

fn logged() -> (Arc<MemoryLog>, Client) {
    let log = Arc::new(MemoryLog::default());
    let options = EngineOptions::new(volatile(4, 64 << 20));
    let engine = Arc::new(Engine::new(EngineOptions { log: Some(log.clone()), ..options }));
    (log, Client::new(&engine))
}

#[test]
fn the_log_has_each_change_and_gives_the_libraries_back() {
    let (log, mut client) = logged();
    let changes = [
        "FUNCTION LOAD @one:f",
        "FUNCTION LOAD @two:g",
        "FUNCTION LOAD REPLACE @one:h",
        "FUNCTION DELETE two",
        "FUNCTION LOAD @three:g:i",
    ];
    for line in changes {
        let reply = run(&mut client, line);
        assert!(!reply.starts_with("(error)"), "{line}: {reply}");
    }
    for line in ["FUNCTION LOAD @one:f", "FUNCTION DELETE two", "FUNCTION LOAD x", "FUNCTION LIST"]
    {
        run(&mut client, line);
    }
    let names: Vec<String> =
        log.lines().iter().map(|line| line[..15.min(line.len())].to_owned()).collect();
    assert_eq!(
        names,
        [
            "SELECT 0",
            "FUNCTION LOAD #",
            "FUNCTION LOAD #",
            "FUNCTION LOAD R",
            "FUNCTION DELETE",
            "FUNCTION LOAD #"
        ]
    );
    assert_eq!(replayed(&log), run(&mut client, "FUNCTION LIST WITHCODE"));
    let dump = parse(&client.raw(&words("FUNCTION DUMP")));
    let Reply::Bulk(_, Some(dump)) = dump else { panic!("no dump") };
    check(&mut client, "FUNCTION FLUSH", "OK");
    assert_eq!(replayed(&log), "[]");
    assert_eq!(show(&client.raw(&[&b"FUNCTION"[..], b"RESTORE", &dump[..]])), "OK");
    assert_eq!(replayed(&log), run(&mut client, "FUNCTION LIST WITHCODE"));
    check(&mut client, "FCALL i 0", "(integer) 1");
}

#[test]
fn a_rewritten_log_holds_the_libraries_and_loads_them_before_the_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path());
    let mut loader = Loader::open(options.clone()).expect("an empty folder");
    assert!(loader.next().expect("nothing to read").is_none());
    let log = Arc::new(loader.into_log().expect("a new log"));
    let of = EngineOptions::new(volatile(4, 64 << 20));
    let engine = Arc::new(Engine::new(EngineOptions { log: Some(log.clone()), ..of }));
    let mut client = Client::new(&engine);
    for line in ["SET k v", "FUNCTION LOAD @one:f", "FUNCTION LOAD @two:g", "FUNCTION DELETE one"] {
        run(&mut client, line);
    }
    let long = format!("{}--{}", library("long", &["l"]), "x".repeat(3 << 20));
    client.raw(&[b"FUNCTION".to_vec(), b"LOAD".to_vec(), long.into_bytes()]);
    commands::rewrite_log(&engine, &log, false, &|| true, None).expect("a rewrite");
    check(&mut client, "FUNCTION LOAD @after:a", "\"after\"");
    let expected = run(&mut client, "FUNCTION LIST WITHCODE");
    drop((client, engine));
    assert!(commands::ReplyLog::sync_to(&*log, log.end()), "a log on the disk");
    drop(log);
    let again = Arc::new(Engine::new(EngineOptions::new(volatile(2, 64 << 20))));
    let mut loader = Loader::open(options).expect("the log");
    commands::replay(&again, &mut loader, &mut |_| {}).expect("a whole log");
    let mut client = Client::new(&again);
    assert_eq!(run(&mut client, "FUNCTION LIST WITHCODE"), expected);
    check(&mut client, "GET k", "\"v\"");
    check(&mut client, "FCALL l 0", "(integer) 0");
}

#[test]
fn a_transaction_that_fails_leaves_the_libraries_as_they_were() {
    let mut client = Client::new(&engine());
    check(&mut client, "FUNCTION LOAD @one:f", "\"one\"");
    for line in [
        "MULTI",
        "FUNCTION LOAD REPLACE @one:g",
        "FUNCTION LOAD @two:g",
        "FUNCTION LOAD @two:f",
        "FUNCTION DELETE two",
        "FUNCTION DELETE two",
    ] {
        run(&mut client, line);
    }
    let expected = "[\"one\", (error) ERR Function g already exists, \"two\", OK, \
                    (error) ERR Library not found]";
    check(&mut client, "EXEC", expected);
    check(&mut client, "FCALL g 0", "(integer) 0");
    check(&mut client, "FCALL f 0", "(error) ERR Function not found");
}

/// A keyspace that is nearly full.
fn over_capacity() -> (Arc<Keyspace>, Client) {
    let keyspace = volatile(1, 8 << 20);
    let engine = Arc::new(Engine::new(EngineOptions::new(Arc::clone(&keyspace))));
    (keyspace, Client::new(&engine))
}

#[test]
fn a_full_store_refuses_a_library_and_keeps_what_was_there() {
    let (keyspace, mut client) = over_capacity();
    check(&mut client, "FUNCTION LOAD @kept:f", "\"kept\"");
    let big = |name: &str| format!("{}--{}", library(name, &["f"]), "x".repeat(32 << 20));
    for replaces in [true, false] {
        let name = if replaces { "kept" } else { "new" };
        let code = big(name).replace("'f'", if replaces { "'f'" } else { "'g'" });
        let mut request = vec![b"FUNCTION".to_vec(), b"LOAD".to_vec()];
        request.extend(replaces.then(|| b"REPLACE".to_vec()));
        request.push(code.into_bytes());
        let reply = show(&client.raw(&request));
        assert!(reply.starts_with("(error) OOM the store is full"), "{reply}");
        check(&mut client, "FCALL f 0", "(integer) 0");
        check(&mut client, "FCALL g 0", "(error) ERR Function not found");
        assert_eq!(keyspace.libraries(), 1);
    }
    keyspace.check().expect("a sound heap");
}

#[test]
fn a_library_that_is_damaged_is_named_and_can_be_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let start = || Arc::new(Engine::new(EngineOptions::new(emulated(&path, 1))));
    {
        let engine = start();
        let mut client = Client::new(&engine);
        check(&mut client, "FUNCTION LOAD @broken:f", "\"broken\"");
        check(&mut client, "FUNCTION LOAD @sound:g", "\"sound\"");
        engine.keyspace().heap().close().expect("a clean close");
    }
    let mut bytes = std::fs::read(&path).expect("the pool");
    let place = memchr::memmem::find(&bytes, b"register_function('f'").expect("the code");
    bytes[place] ^= 2;
    std::fs::write(&path, bytes).expect("the pool");
    let mut client = Client::new(&start());
    check(&mut client, "FCALL g 0", "(integer) 0");
    for line in ["FCALL f 0", "FUNCTION LIST WITHCODE", "FUNCTION DUMP"] {
        let reply = run(&mut client, line);
        assert!(reply.starts_with("(error)") && reply.contains("broken"), "{line}: {reply}");
    }
    check(&mut client, "FUNCTION LOAD REPLACE @broken:f", "\"broken\"");
    check(&mut client, "FCALL f 0", "(integer) 0");
}

#[test]
fn ten_thousand_libraries_are_loaded_called_and_gone() {
    let engine = engine();
    let mut client = Client::new(&engine);
    for n in 0..10_000 {
        check(&mut client, &format!("FUNCTION LOAD @l{n}:f{n}"), &format!("\"l{n}\""));
    }
    check(&mut client, "FCALL f9999 0", "(integer) 0");
    let other = Arc::clone(&engine);
    let called = std::thread::spawn(move || run(&mut Client::new(&other), "FCALL f5000 0"));
    assert_eq!(called.join().expect("a reply"), "(integer) 0");
    check(&mut client, "FUNCTION LOAD @other:f77", "(error) ERR Function f77 already exists");
    check(&mut client, "FUNCTION FLUSH", "OK");
    check(&mut client, "FUNCTION LIST", "[]");
    assert_eq!(engine.keyspace().libraries(), 0);
}

#[test]
fn a_function_is_a_unit_of_work() {
    let (log, mut client) = logged();
    let line = "FUNCTION LOAD #!lua%name=a~redis.register_function('f',function(keys,args)%redis.call('SET',keys[1],args[1])%redis.call('INCR',args[2])%return%redis.call('GET',keys[1])%end)";
    check(&mut client, line, "\"a\"");
    log.clear();
    // One key is declared, the other is in any shard.
    check(&mut client, "FCALL f 1 k v other", "\"v\"");
    check(&mut client, "GET other", "\"1\"");
    assert_eq!(log.lines(), ["SELECT 0", "MULTI", "SET k v", "INCR other", "EXEC"]);
    check(&mut client, "CONFIG RESETSTAT", "OK");
    check(
        &mut client,
        "FCALL f 1 k v k",
        "(error) ERR value is not an integer or out of range script: f, on @user_function:2.",
    );
}
