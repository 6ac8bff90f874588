//! Scripts: what they may call, what remains of them, and what others see meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{Client, MemoryLog, engine, volatile, wire};
use commands::admin::{Facts, Host};
use commands::{Engine, EngineOptions, Failure, Settings};

/// The reply to a script; empty while it runs on a thread of its own.
fn eval(client: &mut Client, script: &str, keys: &[&str]) -> String {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys);
    match client.raw(&words) {
        reply if reply.is_empty() => String::new(),
        reply => wire::show(&reply),
    }
}

#[track_caller]
fn check(script: &str, expected: &str) {
    assert_eq!(eval(&mut Client::new(&engine()), script, &["k"]), expected, "{script}");
}

/// `expected` is the text of the error before the name of the script.
#[track_caller]
fn fails(script: &str, expected: &str) {
    let reply = eval(&mut Client::new(&engine()), script, &["k"]);
    let text = reply.split(" script: ").next().unwrap_or_default();
    assert_eq!(text, format!("(error) {expected}"), "{script}: {reply}");
}

#[test]
fn a_script_gets_replies_and_gives_one() {
    check("return redis.call('set', KEYS[1], 'v')", "OK");
    check("redis.call('set', KEYS[1], 'v') return redis.call('get', KEYS[1])", "\"v\"");
    check("return redis.call('incrby', KEYS[1], 5)", "(integer) 5");
    check("return redis.call('get', KEYS[1])", "(nil)");
    check(
        "return {1, 'two', {3}, redis.call('ping')}",
        "[(integer) 1, \"two\", [(integer) 3], PONG]",
    );
    check("redis.call('select', 3) return redis.call('set', 'in 3', 1)", "OK");
    check(
        "redis.call('hset', KEYS[1], 'f', 'v') return redis.call('hgetall', KEYS[1])",
        "[\"f\", \"v\"]",
    );
    check(
        "redis.setresp(3) redis.call('hset', KEYS[1], 'f', 'v') \
         return redis.call('hgetall', KEYS[1]).map.f",
        "\"v\"",
    );
}

#[test]
fn what_a_script_may_not_call() {
    fails("return redis.call('nothing')", "ERR Unknown Redis command called from script");
    fails("return redis.call('get')", "ERR Wrong number of args calling Redis command from script");
    for command in ["multi", "eval', 'return 1', '0", "blpop', 'k', '0", "subscribe', 'c"] {
        let script = format!("return redis.call('{command}')");
        fails(&script, "ERR This Redis command is not allowed from script");
    }
}

#[test]
fn a_script_that_reads_only_cannot_write() {
    let refused = "Write commands are not allowed from read-only scripts.";
    let mut client = Client::new(&engine());
    let reply = client.raw(&["EVAL_RO", "return redis.call('set', KEYS[1], 'v')", "1", "k"]);
    assert!(wire::show(&reply).contains(refused));
    let flagged = "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 'v')";
    assert!(eval(&mut client, flagged, &["k"]).contains(refused));
    let writes = client.raw(&["EVAL_RO", "#!lua\nreturn 1", "0"]);
    assert!(wire::show(&writes).contains("Can not execute a script with write flag"));
    client.check("EXISTS k", "(integer) 0");
}

#[test]
fn an_error_keeps_what_was_written_before_it() {
    let mut client = Client::new(&engine());
    let script = "redis.call('set', KEYS[1], 'v') redis.call('lpush', KEYS[1], 'v')";
    assert!(eval(&mut client, script, &["k"]).contains("WRONGTYPE"));
    client.check("GET k", "\"v\"");
    assert!(eval(&mut client, "redis.call('del', KEYS[1]) error('end')", &["k"]).contains("end"));
    client.check("EXISTS k", "(integer) 0");
}

#[test]
fn a_script_selects_a_database_for_itself() {
    let mut client = Client::new(&engine());
    assert_eq!(
        eval(&mut client, "redis.call('select', 5) redis.call('set', 'k', 5)", &[]),
        "(nil)"
    );
    client.check("EXISTS k", "(integer) 0");
    client.check("SELECT 5", "OK");
    client.check("GET k", "\"5\"");
}

#[test]
fn a_script_is_found_by_its_sha() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    client.check(
        &format!("EVALSHA {sha} 0"),
        "(error) NOSCRIPT No matching script. Please use EVAL.",
    );
    assert_eq!(wire::show(&client.raw(&["SCRIPT", "LOAD", "return 1"])), format!("\"{sha}\""));
    client.check(&format!("EVALSHA {sha} 0"), "(integer) 1");
    client.check(&format!("EVALSHA {} 0", sha.to_uppercase()), "(integer) 1");
    client.check(&format!("SCRIPT EXISTS {sha} nothing"), "[(integer) 1, (integer) 0]");
    // Another thread compiles it for itself.
    std::thread::scope(|scope| {
        let other = || Client::new(&engine).check(&format!("EVALSHA {sha} 0"), "(integer) 1");
        scope.spawn(other).join().expect("the same script");
    });
    client.check("SCRIPT FLUSH", "OK");
    client.check(&format!("SCRIPT EXISTS {sha}"), "[(integer) 0]");
    client.check(
        &format!("EVALSHA {sha} 0"),
        "(error) NOSCRIPT No matching script. Please use EVAL.",
    );
}

#[test]
fn scripts_that_only_eval_brought_are_forgotten_when_there_are_many() {
    let engine = engine();
    let mut client = Client::new(&engine);
    client.raw(&["SCRIPT", "LOAD", "return 'loaded'"]);
    for number in 0..600 {
        let script = format!("return {number}");
        assert_eq!(eval(&mut client, &script, &[]), format!("(integer) {number}"));
    }
    let info = wire::show(&client.raw(&["INFO", "memory"]));
    assert!(info.contains("number_of_cached_scripts:501"), "{info}");
}

fn logged() -> (Arc<Engine>, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let engine = Arc::new(Engine::new(EngineOptions::new(volatile(4, 64 << 20))));
    assert!(engine.set_log(log.clone()));
    (engine, log)
}

#[test]
fn effects_are_logged_together() {
    let (engine, log) = logged();
    let mut client = Client::new(&engine);
    eval(&mut client, "redis.call('set', KEYS[1], 1)", &["k"]);
    assert_eq!(log.lines(), ["SELECT 0", "set k 1"]);
    log.clear();
    let script = "redis.call('sadd', 's', 'm') redis.call('spop', 's') redis.call('get', 'k') \
                  redis.call('incr', KEYS[1])";
    eval(&mut client, script, &["k"]);
    assert_eq!(log.lines(), ["SELECT 0", "MULTI", "sadd s m", "DEL s", "incr k", "EXEC"]);
    log.clear();
    eval(&mut client, "redis.set_repl(redis.REPL_NONE) redis.call('incr', KEYS[1])", &["k"]);
    assert!(log.lines().is_empty(), "{:?}", log.lines());
    client.check("GET k", "\"3\"");
}

/// The keys of four shards.
fn of_each_shard(engine: &Engine) -> Vec<String> {
    let keyspace = engine.keyspace();
    let of = |shard| {
        let mut keys = (0..).map(|number| format!("key{number}"));
        keys.find(|key| keyspace.key(key.as_bytes()).shard() == shard).expect("one of many")
    };
    (0..keyspace.shards()).map(of).collect()
}

#[test]
fn a_script_that_needs_a_locked_shard_is_run_again_and_seen_once() {
    let (engine, log) = logged();
    let keys = of_each_shard(&engine);
    let script = format!(
        "redis.call('incr', KEYS[1]) redis.call('publish', 'channel', 'm') \
         redis.call('incr', '{}') return redis.call('incr', '{}')",
        keys[1], keys[2]
    );
    let mut listener = Client::new(&engine);
    listener.run("SUBSCRIBE channel");
    std::thread::scope(|scope| {
        let shard = engine.keyspace().key(keys[2].as_bytes()).shard();
        let held = engine.keyspace().begin_one(shard, 0);
        let run = scope.spawn(|| eval(&mut Client::new(&engine), &script, &[&keys[0]]));
        while engine.script_reruns() == 0 {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(run.join().expect("no panic"), "(integer) 1");
    });
    assert_eq!(engine.script_reruns(), 1);
    let mut client = Client::new(&engine);
    keys[..3].iter().for_each(|key| client.check(&format!("GET {key}"), "\"1\""));
    let mut messages = Vec::new();
    let _ = listener.session.client.take_pushes(&mut messages);
    let count = messages.windows(7).filter(|window| window == b"message").count();
    assert_eq!(count, 1, "{}", String::from_utf8_lossy(&messages));
    let incr = log.lines().iter().filter(|line| line.starts_with("incr")).count();
    assert_eq!(incr, 3, "{:?}", log.lines());
    // This is remembered: the script need not fail again.
    assert_eq!(eval(&mut client, &script, &[&keys[0]]), "(integer) 2");
    assert_eq!(engine.script_reruns(), 1);
}

/// The lines shown to a monitoring client: the client, and the arguments.
fn monitored(client: &Client) -> Vec<String> {
    let mut pushes = Vec::new();
    let _ = client.session.client.take_pushes(&mut pushes);
    let text = String::from_utf8(pushes).expect("text");
    let show = |line: &str| {
        let (head, arguments) = line.split_once("] ").expect("a database and a client");
        let who = if head.ends_with("[0 lua") { "lua" } else { "client" };
        format!("{who}: {arguments}")
    };
    text.lines().map(show).collect()
}

#[test]
fn a_script_is_monitored_before_its_commands() {
    let engine = engine();
    let [mut client, mut monitor] = [Client::new(&engine), Client::new(&engine)];
    monitor.check("MONITOR", "OK");
    eval(&mut client, "return redis.call('incr', KEYS[1])", &["n"]);
    let script = ["client: \"EVAL\" \"return redis.call('incr', KEYS[1])\" \"1\" \"n\""];
    let command = ["lua: \"incr\" \"n\""];
    assert_eq!(monitored(&monitor), [script, command].concat());
    // A call without a script is shown too.
    let unknown = "0".repeat(40);
    assert!(client.run(&format!("EVALSHA {unknown} 0")).starts_with("(error) NOSCRIPT"));
    assert_eq!(monitored(&monitor), [format!("client: \"EVALSHA\" \"{unknown}\" \"0\"")]);
    client.run("MULTI");
    client.raw(&["EVAL", "return redis.call('incr', KEYS[1])", "1", "n"]);
    client.check("EXEC", "[(integer) 2]");
    let [begin, end] = [["client: \"MULTI\""], ["client: \"EXEC\""]];
    assert_eq!(monitored(&monitor), [begin, script, command, end].concat());
}

#[test]
fn a_script_in_exec_is_a_part_of_it() {
    let (engine, log) = logged();
    let mut client = Client::new(&engine);
    client.check("MULTI", "OK");
    client.check("SET a 1", "QUEUED");
    eval(&mut client, "return redis.call('incr', 'a') + redis.call('incr', 'b')", &[]);
    client.check("EXEC", "[OK, (integer) 3]");
    assert_eq!(log.lines(), ["SELECT 0", "MULTI", "SET a 1", "incr a", "incr b", "EXEC"]);
}

/// A server in which only waiting takes time.
#[derive(Default)]
pub(crate) struct Patience {
    lines: AtomicUsize,
}

impl Host for Patience {
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
    fn log(&self, _: &str) {
        self.lines.fetch_add(1, Relaxed);
    }
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// An engine whose long scripts have threads of their own, and refuse others after 1 ms.
fn threaded() -> Arc<Engine> {
    threaded_with(Arc::default())
}

fn threaded_with(host: Arc<Patience>) -> Arc<Engine> {
    let engine = engine();
    let of_jobs = Arc::clone(&engine);
    assert!(engine.set_host(host));
    assert!(engine.set_spawn(move |_, job| {
        let engine = Arc::clone(&of_jobs);
        std::thread::spawn(move || job(&engine));
        true
    }));
    engine.config().store(Settings { busy_reply_threshold: 1, ..engine.config().settings() });
    engine
}

fn waiting(engine: &Arc<Engine>) -> Client {
    let mut client = Client::patient(engine);
    client.session.set_can_walk();
    client
}

/// Repeats a line until the reply of another client shows that a script runs long. If the script's
/// thread finds a shard locked, by that very client, the script's own client must try again.
#[track_caller]
fn shows(moved: &mut Client, other: &mut Client, line: &str, expected: &str) {
    while other.run(line) != expected {
        assert_eq!(moved.unblocked(), None, "it has ended");
        std::thread::yield_now();
    }
}

/// Repeats a line until the reply is as expected: another thread is about to release its locks.
#[track_caller]
fn becomes(client: &mut Client, line: &str, expected: &str) {
    while client.run(line) != expected {
        std::thread::yield_now();
    }
}

#[track_caller]
fn ends(client: &mut Client) -> String {
    loop {
        if let Some(reply) = client.unblocked() {
            return reply;
        }
        std::thread::yield_now();
    }
}

const BUSY: &str = "(error) BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str = "(error) BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";
const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

#[test]
fn others_are_served_while_a_script_runs_long() {
    let engine = threaded();
    let keys = of_each_shard(&engine);
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    second.check("SCRIPT KILL", "(error) NOTBUSY No scripts in execution right now.");
    eval(&mut first, "redis.call('get', KEYS[1]) while true do end", &[&keys[0]]);
    shows(&mut first, &mut second, &format!("GET {}", keys[0]), BUSY);
    // A large value is written before its shard is locked, unless it would wait for that.
    second.check(&format!("SET {} {}", keys[0], "v".repeat(40_000)), BUSY);
    second.check(&format!("SET {} v", keys[1]), "OK");
    second.check("PING", "PONG");
    // It is not closed for being idle.
    assert!(first.session.client.blocked.load(Relaxed));
    second.check("SCRIPT KILL", "OK");
    assert!(ends(&mut first).contains(KILLED));
    assert!(!first.session.client.blocked.load(Relaxed));
    becomes(&mut second, &format!("SET {} v", keys[0]), "OK");
    becomes(&mut second, "SCRIPT KILL", "(error) NOTBUSY No scripts in execution right now.");
    // The interpreter of the connection's thread still works.
    assert_eq!(eval(&mut first, "return redis.call('get', KEYS[1])", &[&keys[0]]), "\"v\"");
}

#[test]
fn a_script_that_has_written_is_killed_only_if_that_undoes_it() {
    let engine = threaded();
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    let script = "redis.call('set', KEYS[1], 'v') while true do end";
    loop {
        eval(&mut first, script, &["k"]);
        shows(&mut first, &mut second, "GET k", BUSY);
        let reply = second.run("SCRIPT KILL");
        if reply.starts_with("(error) UNKILLABLE") {
            break;
        }
        // It had not reached its first command yet.
        assert_eq!(reply, "OK");
        assert!(ends(&mut first).contains(KILLED));
    }
    engine.config().store(Settings { script_kill_rollback: true, ..engine.config().settings() });
    second.check("SCRIPT KILL", "OK");
    assert!(ends(&mut first).contains(KILLED));
    becomes(&mut second, "GET k", "(nil)");
}

#[test]
fn a_long_script_has_one_result() {
    let engine = threaded();
    let mut client = waiting(&engine);
    let script = "redis.call('incr', KEYS[1]) local n = 0 \
                  for i = 1, 2000000 do n = n + 1 end return redis.call('incr', KEYS[1])";
    let reply = eval(&mut client, script, &["k"]);
    let reply = if reply.is_empty() { ends(&mut client) } else { reply };
    assert_eq!(reply, "(integer) 2");
    becomes(&mut client, "GET k", "\"2\"");
}

#[test]
fn a_long_script_waits_for_a_locked_shard_and_not_for_itself() {
    let engine = threaded();
    let keys = of_each_shard(&engine);
    let script = format!(
        "local n = 0 for i = 1, 3000000 do n = n + 1 end \
         redis.call('incr', KEYS[1]) return redis.call('incr', '{}')",
        keys[1]
    );
    let mut client = waiting(&engine);
    let shard = engine.keyspace().key(keys[1].as_bytes()).shard();
    let held = engine.keyspace().begin_one(shard, 0);
    assert_eq!(eval(&mut client, &script, &[&keys[0]]), "");
    while engine.script_reruns() == 0 {
        std::thread::yield_now();
    }
    drop(held);
    assert_eq!(ends(&mut client), "(integer) 1");
    becomes(&mut client, &format!("GET {}", keys[0]), "\"1\"");
}

#[test]
fn an_exec_with_a_long_script_is_moved_as_a_whole() {
    let engine = threaded();
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    first.check("WATCH k", "OK");
    first.check("MULTI", "OK");
    first.check("INCR k", "QUEUED");
    eval(&mut first, "while true do end", &[]);
    first.check("INCR k", "QUEUED");
    first.run("EXEC");
    shows(&mut first, &mut second, "GET k", BUSY);
    second.check("SCRIPT KILL", "OK");
    let reply = ends(&mut first);
    assert!(reply.starts_with("[(integer) 1, (error) ") && reply.ends_with(", (integer) 2]"));
    becomes(&mut second, "GET k", "\"2\"");
}

#[test]
fn nothing_is_watched_after_an_exec_that_was_moved() {
    let engine = threaded();
    let mut client = waiting(&engine);
    let long = "local n = 0 for i = 1, 1000000 do n = n + 1 end return n";
    client.check("WATCH k", "OK");
    client.check("MULTI", "OK");
    client.check("SET k v", "QUEUED");
    eval(&mut client, long, &[]);
    client.check("EXEC", "(blocked)");
    assert_eq!(ends(&mut client), "[OK, (integer) 1000000]");
    client.check("MULTI", "OK");
    client.check("GET k", "QUEUED");
    client.check("EXEC", "[\"v\"]");
}

#[test]
fn an_exec_that_is_moved_changes_its_session() {
    let engine = threaded();
    let mut client = waiting(&engine);
    let long = "local n = 0 for i = 1, 1000000 do n = n + 1 end return n";
    client.check("MULTI", "OK");
    client.check("SELECT 5", "QUEUED");
    eval(&mut client, long, &[]);
    client.check("EXEC", "(blocked)");
    assert_eq!(ends(&mut client), "[OK, (integer) 1000000]");
    client.check("SET k v", "OK");
    client.check("SELECT 0", "OK");
    client.check("GET k", "(nil)");
}

#[test]
fn a_script_that_logs_without_end_is_not_kept_until_it_ends() {
    let host = Arc::<Patience>::default();
    let engine = threaded_with(Arc::clone(&host));
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    let script = "redis.call('get', KEYS[1]) local line = ('x'):rep(1000) \
                  while true do redis.log(redis.LOG_NOTICE, line) end";
    eval(&mut first, script, &["k"]);
    shows(&mut first, &mut second, "GET k", BUSY);
    while host.lines.load(Relaxed) < 5000 {
        std::thread::yield_now();
    }
    second.check("SCRIPT KILL", "OK");
    assert!(ends(&mut first).contains(KILLED));
}

#[test]
fn a_shutdown_leaves_nothing_of_an_exec_whose_script_it_ends() {
    let engine = threaded();
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    first.check("MULTI", "OK");
    first.check("SET a 1", "QUEUED");
    eval(&mut first, "redis.call('set', KEYS[1], 2) while true do end", &["b"]);
    first.check("SET c 3", "QUEUED");
    first.run("EXEC");
    shows(&mut first, &mut second, "GET a", BUSY);
    engine.kill_scripts();
    assert_eq!(ends(&mut first), "(error) ERR the server is shutting down");
    assert_eq!(first.outcome.next, commands::Next::Close, "what follows would run without it");
    becomes(&mut second, "MGET a b c", "[(nil), (nil), (nil)]");
    // A script that takes long from then on ends, too.
    eval(&mut first, "while true do end", &[]);
    assert!(ends(&mut first).contains(KILLED));
    assert_eq!(first.outcome.next, commands::Next::Close);
}

#[test]
fn all_commands_are_refused_while_a_script_runs_too_long_if_that_is_wished() {
    let engine = threaded();
    engine.config().store(Settings { busy_reply_all: true, ..engine.config().settings() });
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    eval(&mut first, "while true do end", &[]);
    shows(&mut first, &mut second, "PING", BUSY);
    // As in Redis, a transaction can be begun meanwhile, but no command queued.
    second.check("MULTI", "OK");
    second.check("PING", BUSY);
    let aborted =
        "(error) EXECABORT Transaction discarded because of: BUSY Redis is busy running a script. ";
    assert!(second.run("EXEC").starts_with(aborted));
    second.check("FUNCTION KILL", BUSY);
    second.check("FUNCTION STATS", BUSY);
    second.check("SCRIPT KILL", "OK");
    assert!(ends(&mut first).contains(KILLED));
    becomes(&mut second, "PING", "PONG");
}

/// A single call that takes minutes, and repeated instructions that each take long.
#[test]
fn a_function_in_native_work_is_killed() {
    for work in [
        "string.find(string.rep('a', 100000), '.-.-.-.-.-b')",
        "table.sort(t, nil)",
        "cjson.decode(cjson.encode(t))",
        "cmsgpack.unpack(cmsgpack.pack(t))",
        "table.concat(t):upper():reverse()",
    ] {
        let engine = threaded();
        let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
        let library = format!(
            "#!lua name=l\nredis.register_function('f', function(keys) redis.call('get', keys[1]) \
             local t = {{}} for i = 1, 200000 do t[i] = i % 1000 end \
             while true do pcall(function() return {work} end) end end)"
        );
        assert_eq!(first.raw(&["FUNCTION", "LOAD", &library]), b"$1\r\nl\r\n");
        first.run("FCALL f 1 k");
        shows(&mut first, &mut second, "GET k", BUSY_FUNCTION);
        second.check("SCRIPT KILL", BUSY_FUNCTION);
        second.check("FUNCTION KILL", "OK");
        assert!(ends(&mut first).contains(KILLED), "{work}");
        becomes(&mut second, "FUNCTION KILL", "(error) NOTBUSY No scripts in execution right now.");
        becomes(&mut second, "SET k v", "OK");
    }
}

#[test]
fn function_stats_shows_a_function_that_runs_long() {
    let engine = threaded();
    let (mut first, mut second) = (waiting(&engine), Client::new(&engine));
    let library = "#!lua name=l\nredis.register_function('f', function() while true do end end)";
    first.raw(&["FUNCTION", "LOAD", library]);
    first.run("FCALL F 1 k v");
    let shown = "\"running_script\", [\"name\", \"f\", \"command\", \
                 [\"FCALL\", \"F\", \"1\", \"k\", \"v\"], \"duration_ms\", (integer) ";
    while !second.run("FUNCTION STATS").contains(shown) {
        std::thread::yield_now();
    }
    second.check("FUNCTION KILL", "OK");
    assert!(ends(&mut first).contains(KILLED));
    while !second.run("FUNCTION STATS").starts_with("[\"running_script\", (nil)") {
        std::thread::yield_now();
    }
}
