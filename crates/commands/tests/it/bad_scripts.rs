//! Scripts that are wrong, endless or huge: they fail with Redis's text, the engine continues to
//! serve, and their memory is freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::scripts::Patience;
use crate::support::{Client, engine, wire};
use commands::{Engine, EventClasses, Settings};

/// Calls EVAL with this number of keys; the reply is empty while the script runs elsewhere.
fn eval(client: &mut Client, script: &str, count: &str, others: &[&str]) -> String {
    let words = [&["EVAL", script, count], others].concat();
    match client.raw(&words) {
        reply if reply.is_empty() => String::new(),
        reply => wire::show(&reply),
    }
}

/// Returns a number of INFO's section `memory`.
fn memory(client: &mut Client, name: &str) -> u64 {
    let text = String::from_utf8(client.raw(&["INFO", "memory"])).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line").trim().parse().expect("a number")
}

#[test]
fn a_wrong_number_of_keys_is_refused_as_in_redis() {
    let mut client = Client::new(&engine());
    const NEGATIVE: &str = "(error) ERR Number of keys can\\'t be negative";
    const GREATER: &str = "(error) ERR Number of keys can\\'t be greater than number of args";
    const NO_INTEGER: &str = "(error) ERR value is not an integer or out of range";
    for (count, expected) in [
        ("-1", NEGATIVE),
        ("-9223372036854775808", NEGATIVE),
        ("2", GREATER),
        ("9223372036854775807", GREATER),
        ("9223372036854775808", NO_INTEGER),
        ("x", NO_INTEGER),
        ("", NO_INTEGER),
        ("1.5", NO_INTEGER),
        (" 1", NO_INTEGER),
        ("01", NO_INTEGER),
        ("+1", NO_INTEGER),
    ] {
        let lines = client.run("EXISTS k");
        assert_eq!(eval(&mut client, "return redis.call('set', 'k', 1)", count, &["k"]), expected);
        assert_eq!(client.run("EXISTS k"), lines, "{count:?}");
    }
}

#[test]
fn scripts_of_megabytes_run_or_are_refused_and_are_forgotten_by_a_flush() {
    let mut client = Client::new(&engine());
    eval(&mut client, "return 1", "0", &[]);
    client.check("SCRIPT FLUSH", "OK");
    let text = "x".repeat(8 << 20);
    assert_eq!(eval(&mut client, &format!("return #'{text}'"), "0", &[]), "(integer) 8388608");
    assert_eq!(eval(&mut client, &format!("--[[{text}]] return 2"), "0", &[]), "(integer) 2");
    assert_eq!(memory(&mut client, "used_memory_scripts_eval"), (16 << 20) + 25);
    let compiling = "(error) ERR Error compiling script (new function): ";
    for script in
        [text.as_str(), &"(".repeat(1 << 20), &"f(".repeat(1 << 20), &"\0".repeat(1 << 20)]
    {
        let reply = eval(&mut client, script, "0", &[]);
        assert!(reply.starts_with(compiling), "{script:.20}: {reply:.200}");
    }
    assert!(memory(&mut client, "used_memory_vm_eval") > 8 << 20);
    client.check("SCRIPT FLUSH", "OK");
    assert_eq!(memory(&mut client, "used_memory_scripts_eval"), 0);
    let left = memory(&mut client, "used_memory_vm_eval");
    assert!(left < 1 << 20, "{left} bytes are left of the compiled scripts");
}

/// Other threads notice a flush periodically, without running a script.
#[test]
fn a_flush_frees_what_other_threads_have_compiled() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let text = format!("return #'{}'", "x".repeat(8 << 20));
    assert_eq!(eval(&mut client, &text, "0", &[]), "(integer) 8388608");
    std::thread::scope(|scope| {
        scope.spawn(|| Client::new(&engine).check("SCRIPT FLUSH", "OK"));
    });
    assert!(memory(&mut client, "used_memory_vm_eval") > 8 << 20);
    commands::free_flushed_scripts(&engine);
    let left = memory(&mut client, "used_memory_vm_eval");
    assert!(left < 1 << 20, "{left} bytes are left of the compiled script");
    assert_eq!(eval(&mut client, &text, "0", &[]), "(integer) 8388608");
}

#[test]
fn arguments_of_any_number_and_length_reach_the_script() {
    let mut client = Client::new(&engine());
    let (count, long) = ("70000", "x".repeat(1 << 20));
    let mut words = vec!["k"; 70_000];
    words.push(&long);
    let script = "return {#KEYS, KEYS[70000], #ARGV, #ARGV[1], redis.call('set', KEYS[1], 'v')}";
    let expected = "[(integer) 70000, \"k\", (integer) 1, (integer) 1048576, OK]";
    assert_eq!(eval(&mut client, script, count, &words), expected);
    assert_eq!(eval(&mut client, "return ARGV[1]", "0", &["\0\r\n"]), "\"\\x00\\r\\n\"");
    assert_eq!(eval(&mut client, "return #KEYS + #ARGV", "0", &[]), "(integer) 0");
}

#[test]
fn keys_of_all_shards_that_were_not_declared_are_written_at_once() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let script = "for i = 1, 1000 do redis.call('set', 'key:' .. i, i) end error('at the end')";
    let reply = eval(&mut client, script, "0", &[]);
    assert!(reply.starts_with("(error) ERR user_script:1: at the end script: "), "{reply}");
    client.check("DBSIZE", "(integer) 1000");
    client.check("GET key:1000", "\"1000\"");
}

/// Returns the number of bytes of lines for a monitoring client, and whether it is closed, after a
/// script that calls ECHO `count` times with a megabyte; in an EXEC, after another script.
fn monitored(count: u32, in_exec: bool) -> (usize, bool) {
    let engine = engine();
    let (mut monitor, mut client) = (Client::new(&engine), Client::new(&engine));
    monitor.check("MONITOR", "OK");
    let script =
        format!("for i = 1, {count} do redis.call('echo', ARGV[1]) end return redis.call('ping')");
    let words = ["EVAL", &script, "0", &"x".repeat(1 << 20)];
    if in_exec {
        client.check("MULTI", "OK");
        client.raw(&words);
        let reply = wire::show(&client.raw(&words));
        assert_eq!(reply, "QUEUED");
        client.check("EXEC", "[PONG, PONG]");
    } else {
        assert_eq!(wire::show(&client.raw(&words)), "PONG");
    }
    let mut lines = Vec::new();
    let _ = monitor.session.client.take_pushes(&mut lines);
    (lines.len() >> 20, monitor.session.client.killed.load(Relaxed))
}

#[test]
fn those_who_monitor_a_script_without_end_are_closed() {
    assert_eq!(monitored(40, false), (41, false));
    assert_eq!(monitored(100, false), (64, true));
    assert_eq!(monitored(20, true), (42, false));
    assert_eq!(monitored(50, true), (63, true));
}

/// Returns the number of these events that a subscriber gets for this many calls of a command on an
/// absent key with a long name, in one script.
fn events(event: &str, call: &str, count: u32) -> usize {
    let engine = engine();
    let (mut subscriber, mut client) = (Client::new(&engine), Client::new(&engine));
    engine.set_events(EventClasses::parse(b"KEAm"));
    subscriber.raw(&["SUBSCRIBE", &format!("__keyevent@0__:{event}")]);
    let script = |count| format!("for i = 1, {count} do redis.call({call}) end return 1");
    let key = "k".repeat(1 << 20);
    assert_eq!(eval(&mut client, &script(count), "1", &[&key]), "(integer) 1");
    let mut messages = Vec::new();
    let _ = subscriber.session.client.take_pushes(&mut messages);
    assert_eq!(eval(&mut client, &script(1), "1", &["absent"]), "(integer) 1");
    let mut last = Vec::new();
    let _ = subscriber.session.client.take_pushes(&mut last);
    assert!(last.ends_with(b"\r\nabsent\r\n"), "the next script's events are published");
    messages.windows(7).filter(|bytes| bytes == b"message").count()
}

#[test]
fn a_script_that_misses_keys_without_end_is_heard_of_up_to_a_bound() {
    let missed = |count| events("keymiss", "'get', KEYS[1]", count);
    assert_eq!(missed(20), 20);
    assert_eq!(missed(100), 31);
}

#[test]
fn a_script_that_writes_without_end_is_heard_of_up_to_a_bound() {
    let set = |count| events("set", "'set', KEYS[1], i", count);
    assert_eq!(set(20), 20);
    assert_eq!(set(100), 63);
}

#[test]
fn a_script_that_publishes_without_end_is_refused_to() {
    let engine = engine();
    let (mut subscriber, mut client) = (Client::new(&engine), Client::new(&engine));
    subscriber.raw(&["SUBSCRIBE", "c"]);
    let script = "local text = ('x'):rep(1e6) for i = 1, 100 do redis.call('set', KEYS[1], i) \
                  redis.call('publish', 'c', text) end";
    let reply = eval(&mut client, script, "1", &["k"]);
    let expected = "(error) ERR too many messages are published in one script or transaction";
    assert!(reply.starts_with(expected), "{reply}");
    // The changes made before the error are kept, as after any other error.
    client.check("GET k", "\"68\"");
    let one = "return redis.call('publish', 'c', 'x')";
    assert_eq!(eval(&mut client, one, "0", &[]), "(integer) 1");
}

/// An engine whose long scripts have threads of their own, and the current number of such threads.
fn threaded() -> (Arc<Engine>, Arc<AtomicUsize>) {
    let (engine, threads) = (engine(), Arc::<AtomicUsize>::default());
    let (of_jobs, counted) = (Arc::clone(&engine), Arc::clone(&threads));
    assert!(engine.set_host(Arc::<Patience>::default()));
    assert!(engine.set_spawn(move |_, job| {
        let (engine, threads) = (Arc::clone(&of_jobs), Arc::clone(&counted));
        threads.fetch_add(1, Relaxed);
        std::thread::spawn(move || {
            std::thread::spawn(move || job(&engine)).join().expect("no panic");
            threads.fetch_sub(1, Relaxed);
        });
        true
    }));
    engine.config().store(Settings { busy_reply_threshold: 1, ..engine.config().settings() });
    (engine, threads)
}

#[test]
fn sixty_endless_scripts_at_once_are_killed_and_leave_nothing() {
    let (engine, threads) = threaded();
    let mut other = Client::new(&engine);
    eval(&mut other, "return 1", "0", &[]);
    let before = memory(&mut other, "used_memory_vm_eval");
    let mut clients: Vec<Client> = (0..60).map(|_| Client::patient(&engine)).collect();
    for client in &mut clients {
        client.session.set_can_walk();
        let reply = eval(client, "while true do pcall(error, {}) end", "0", &[]);
        assert_eq!(reply, "");
    }
    assert_eq!(threads.load(Relaxed), 60);
    other.check("SET k v", "OK");
    other.check("GET k", "\"v\"");
    let mut replies: Vec<Option<String>> = vec![None; clients.len()];
    while replies.iter().any(Option::is_none) {
        other.run("SCRIPT KILL");
        for (client, reply) in clients.iter_mut().zip(&mut replies) {
            *reply = reply.take().or_else(|| client.unblocked());
        }
        std::thread::yield_now();
    }
    for reply in replies.into_iter().flatten() {
        assert!(reply.contains("Script killed by user with SCRIPT KILL"), "{reply}");
    }
    while threads.load(Relaxed) > 0 {
        std::thread::yield_now();
    }
    other.check("GET k", "\"v\"");
    assert_eq!(eval(&mut other, "return redis.call('get', 'k')", "1", &["k"]), "\"v\"");
    let after = memory(&mut other, "used_memory_vm_eval");
    // Interpreters of sixty threads would take several megabytes.
    assert!(after < before + (1 << 20), "{before} bytes before, {after} after");
}
