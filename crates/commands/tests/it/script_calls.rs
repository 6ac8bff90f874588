//! Effects of scripts besides their results: allowed calls, statistics, and what other clients see.

use std::sync::Arc;

use crate::support::{Client, engine, volatile, wire};
use commands::{Engine, EngineOptions, Next};
use keyspace::{Eviction, Policy};
use resp::{Protocol, Writer};

/// The reply to a request whose arguments may have spaces.
fn call(client: &mut Client, args: &[&str]) -> String {
    wire::show(&client.raw(args))
}

/// The reply to EVAL with these keys.
fn eval(client: &mut Client, script: &str, keys: &[&str]) -> String {
    let count = keys.len().to_string();
    call(client, &[&["EVAL", script, &count], keys].concat())
}

/// The line of a section of INFO that begins with `name`, without it.
fn info(client: &mut Client, section: &str, name: &str) -> Option<String> {
    let text = client.raw(&["INFO", section]);
    let text = String::from_utf8(text).expect("text");
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
}

/// The messages sent to a client, without the times of MONITOR's lines.
fn heard(client: &Client) -> Vec<String> {
    let mut pushes = Vec::new();
    let _ = client.session.client.take_pushes(&mut pushes);
    let text = String::from_utf8(pushes).expect("text");
    let without_time = |line: &str| line.split_once(' ').map_or(line, |(_, rest)| rest).to_owned();
    text.lines().map(without_time).collect()
}

#[test]
fn those_who_monitor_see_the_call_and_then_its_commands() {
    let engine = engine();
    let [mut client, mut monitor] = [Client::new(&engine), Client::new(&engine)];
    monitor.check("MONITOR", "OK");
    let script = "redis.call('set', KEYS[1], 1) redis.call('select', 3) return redis.call('ping')";
    let from = client.session.client.peer.addr.clone();
    let expected = [
        format!("[0 {from}] \"EVAL\" \"{script}\" \"1\" \"k\""),
        "[0 lua] \"set\" \"k\" \"1\"".to_owned(),
        "[3 lua] \"select\" \"3\"".to_owned(),
        "[3 lua] \"ping\"".to_owned(),
    ];
    eval(&mut client, script, &["k"]);
    assert_eq!(heard(&monitor), expected);
    client.check("MULTI", "OK");
    eval(&mut client, script, &["k"]);
    client.run("EXEC");
    let lines = heard(&monitor);
    let from = lines.iter().position(|line| line.contains("\"EVAL\"")).expect("the call");
    assert_eq!(lines[from..][..4], expected, "{lines:?}");
}

#[test]
fn what_a_script_was_refused_is_counted_once() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let mut check = |request: &[&str], of_set: &str, of_eval: &str| {
        client.check("CONFIG RESETSTAT", "OK");
        call(&mut client, request);
        let name = format!("cmdstat_{}", request[0].to_lowercase());
        let mut stat = |name: &str| info(&mut client, "commandstats", name).expect("a line");
        for (name, expected) in [("cmdstat_set", of_set), (name.as_str(), of_eval)] {
            let found = stat(name);
            let counts = found.split(',').filter(|part| !part.starts_with("usec"));
            assert_eq!(counts.collect::<Vec<_>>().join(","), expected, "{request:?} {name}");
        }
        let errors = info(&mut client, "errorstats", "errorstat_ERR");
        assert_eq!(errors.as_deref(), Some("count=1"), "{request:?}");
        let total = info(&mut client, "stats", "total_error_replies");
        assert_eq!(total.as_deref(), Some("1"), "{request:?}");
    };
    let refused = "calls=0,rejected_calls=1,failed_calls=0";
    let (fails, succeeds) =
        ("calls=1,rejected_calls=0,failed_calls=1", "calls=1,rejected_calls=0,failed_calls=0");
    check(&["EVAL_RO", "return redis.call('set', 'k', 1)", "0"], refused, fails);
    check(&["EVAL_RO", "redis.pcall('set', 'k', 1)", "0"], refused, succeeds);
    check(&["EVAL", "redis.pcall('set', 'k')", "0"], refused, succeeds);
    check(&["EVAL", "redis.pcall('set', 'k', 1, 'EX', 'x')", "0"], fails, succeeds);
}

#[test]
fn errors_within_a_result_are_counted_as_they_are_sent() {
    let mut client = Client::new(&engine());
    let mut check = |script: &str, reply: &str, code: &str| {
        client.check("CONFIG RESETSTAT", "OK");
        assert_eq!(eval(&mut client, script, &["k"]), reply, "{script}");
        let count = info(&mut client, "errorstats", &format!("errorstat_{code}"));
        assert_eq!(count.as_deref(), Some("count=1"), "{script}");
    };
    check("return {1, redis.error_reply('MY error')}", "[(integer) 1, (error) MY error]", "MY");
    check("return {{map = {a = {err = 'MY error'}}}}", "[[\"a\", (error) MY error]]", "MY");
    check(
        "redis.call('set', KEYS[1], 'x') return {redis.pcall('incr', KEYS[1])}",
        "[(error) ERR value is not an integer or out of range]",
        "ERR",
    );
    check("return redis.error_reply(' x')", "(error)  x", "");
    check("return redis.error_reply('MY a\\0b')", "(error) MY a", "MY");
    check("return {err = 'a\\r\\nb'}", "(error) a  b", "a");
    check("return redis.error_reply('\\r\\nMY error\\r\\n')", "(error)   MY error", "");
}

#[test]
fn what_may_be_propagated_is_a_write_to_a_script_that_only_reads() {
    let mut client = Client::new(&engine());
    let refused = "Write commands are not allowed from read-only scripts.";
    let publish = "return redis.call('publish', 'channel', 'm')";
    assert!(call(&mut client, &["EVAL_RO", publish, "0"]).contains(refused));
    let flagged = format!("#!lua flags=no-writes\n{publish}");
    assert!(eval(&mut client, &flagged, &[]).contains(refused));
    assert_eq!(eval(&mut client, publish, &[]), "(integer) 0");
}

#[test]
fn a_script_cannot_block_and_sorts_what_has_no_order() {
    let mut client = Client::new(&engine());
    client.run("XADD s 1-1 f v");
    client.run("SADD set b c a aa");
    let read =
        |options: &str| format!("return redis.call('XREAD', {options} 'streams', KEYS[1], '5')");
    assert_eq!(eval(&mut client, &read(""), &["s"]), "(nil)");
    let refused = "ERR XREAD command is not allowed with BLOCK option from scripts";
    assert!(eval(&mut client, &read("'BLOCK', 'x',"), &["s"]).contains(refused));
    let sort = "return redis.call('sort', KEYS[1], 'by', '_')";
    assert_eq!(eval(&mut client, sort, &["set"]), "[\"a\", \"aa\", \"b\", \"c\"]");
}

#[test]
fn scripts_draw_different_random_numbers() {
    let mut client = Client::new(&engine());
    let script = "return tostring(math.random())";
    let [first, second] = [0; 2].map(|_| eval(&mut client, script, &[]));
    assert_ne!(first, second);
    let script = format!("math.randomseed(10) {script}");
    let [first, second] = [0; 2].map(|_| eval(&mut client, &script, &[]));
    assert_eq!(first, second);
}

#[test]
fn a_caching_client_is_notified_of_the_keys_that_a_reading_script_declares() {
    let engine = engine();
    let [mut reader, mut writer] = [Client::new(&engine), Client::new(&engine)];
    reader.run("HELLO 3");
    reader.check("CLIENT TRACKING on", "OK");
    let mut invalidated = |command: &str, script: &str| {
        call(&mut reader, &[command, script, "2", "a", "b"]);
        writer.check("MSET a 1 b 1 c 1", "OK");
        let lines = heard(&reader);
        lines
            .into_iter()
            .filter(|line| ["a", "b", "c"].contains(&line.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(invalidated("EVAL", "redis.call('set', 'd', 1)"), Vec::<String>::new());
    assert_eq!(invalidated("EVAL", "redis.call('get', 'c')"), ["a", "b"]);
    assert_eq!(invalidated("EVAL_RO", "redis.call('ping')"), Vec::<String>::new());
    assert_eq!(invalidated("EVAL_RO", "redis.call('get', 'a')"), ["a", "b"]);
}

#[test]
fn debug_lets_scripts_call_what_they_may_not() {
    let mut client = Client::new(&engine());
    let script = "return redis.call('debug', 'protocol', 'double')";
    let refused = "ERR This Redis command is not allowed from script";
    assert!(eval(&mut client, script, &[]).contains(refused));
    client.check("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "OK");
    assert_eq!(eval(&mut client, script, &[]), "\"3.141\"");
    let script = "redis.setresp(3) return redis.call('debug', 'protocol', 'attrib')";
    assert_eq!(eval(&mut client, script, &[]), "\"Some real reply following the attribute\"");
    // Commands that begin or end a transaction are not allowed.
    for command in ["multi", "exec", "eval', 'return 1', '0", "watch', 'k"] {
        let script = format!("return redis.call('{command}')");
        assert!(eval(&mut client, &script, &[]).contains(refused), "{command}");
    }
    client.check("DEBUG SET-DISABLE-DENY-SCRIPTS 0", "OK");
    assert!(eval(&mut client, script, &[]).contains(refused));
}

#[test]
fn debug_shows_a_key_that_has_expired_and_is_there() {
    let mut client = Client::new(&engine());
    client.check("SET k v PX 1", "OK");
    std::thread::sleep(std::time::Duration::from_millis(3));
    assert!(client.run("DEBUG OBJECT k").contains("encoding:embstr"));
    client.check("EXISTS k", "(integer) 0");
    assert!(client.run("DEBUG OBJECT none").contains("no such key"));
}

#[test]
fn a_reload_over_what_is_there_is_refused_unless_it_is_merged() {
    let mut client = Client::new(&engine());
    client.check("SET k v", "OK");
    let refused = "(error) ERR Error trying to load the RDB dump, check server logs.";
    client.check("DEBUG RELOAD NOFLUSH", refused);
    client.check("GET k", "\"v\"");
}

/// A request that waits while writes are paused.
#[test]
fn scripts_that_declare_that_they_do_not_write_are_not_paused() {
    let engine = Arc::new(Engine::new(EngineOptions::new(volatile(4, 64 << 20))));
    let mut client = Client::new(&engine);
    let library = "#!lua name=l\n\
        redis.register_function{function_name='r', callback=function() end, flags={'no-writes'}}\n\
        redis.register_function('w', function() end)";
    call(&mut client, &["FUNCTION", "LOAD", library]);
    let read_only = "#!lua flags=no-writes\nreturn 1";
    let sha = call(&mut client, &["SCRIPT", "LOAD", read_only]);
    client.check("CLIENT PAUSE 1000000 WRITE", "OK");
    let check = |requests: &[&[&str]], next: Next| {
        let mut session = Client::new(&engine).session;
        let words: Vec<Vec<&[u8]>> = requests
            .iter()
            .map(|request| request.iter().map(|word| word.as_bytes()).collect())
            .collect();
        let mut batch = engine.batch();
        words.iter().for_each(|words| batch.push(words));
        let mut out = Writer::new(Protocol::Resp2);
        let done = engine.execute_batch(&mut session, &mut batch, &mut out);
        assert_eq!(done.next, next, "{requests:?}");
    };
    check(&[&["EVAL", "return 1", "0"]], Next::Paused);
    check(&[&["EVAL", "#!lua\nreturn 1", "0"]], Next::Paused);
    check(&[&["EVAL", read_only, "0"]], Next::Reply);
    check(&[&["EVAL_RO", "return 1", "0"]], Next::Reply);
    check(&[&["EVALSHA", sha.trim_matches('"'), "0"]], Next::Reply);
    check(&[&["FCALL", "r", "0"]], Next::Reply);
    check(&[&["FCALL", "w", "0"]], Next::Paused);
    check(&[&["MULTI"], &["EVAL", read_only, "0"], &["EXEC"]], Next::Reply);
    check(&[&["MULTI"], &["EVAL", "return 1", "0"], &["EXEC"]], Next::Paused);
}

#[test]
fn less_than_an_entry_takes_is_exceeded_by_an_empty_store() {
    let engine = engine();
    let eviction = Eviction { maxmemory: 1, policy: Policy::NoEviction, ..Eviction::default() };
    engine.keyspace().set_eviction(eviction, 0);
    let mut client = Client::new(&engine);
    let library = "#!lua name=l\nredis.register_function('f', function() end)";
    for request in [&["SET", "k", "v"][..], &["FUNCTION", "LOAD", library]] {
        assert!(call(&mut client, request).starts_with("(error) OOM"), "{request:?}");
    }
    for name in ["EVAL", "EVAL_RO"] {
        // As for any refused command, before the script is read.
        let reply = call(&mut client, &[name, "#!lua\nreturn 1", "0"]);
        let expected = "(error) OOM command not allowed when used memory > \\'maxmemory\\'.";
        assert_eq!(reply, expected, "{name}");
    }
    assert_eq!(eval(&mut client, "return 1", &[]), "(integer) 1");
}

#[test]
fn info_knows_what_scripts_take() {
    let mut client = Client::new(&engine());
    let mut number = |name: &str| -> u64 {
        let text = info(&mut client, "memory", name).expect("a line");
        text.parse().expect("a number")
    };
    let before = number("used_memory_vm_eval");
    let library = "#!lua name=l\nredis.register_function('f', function() end)";
    let names = ["used_memory_scripts_eval", "used_memory_vm_functions", "used_memory_functions"];
    assert_eq!(names.map(&mut number), [0; 3]);
    eval(&mut client, "return 1", &[]);
    call(&mut client, &["FUNCTION", "LOAD", library]);
    let mut number = |name: &str| -> u64 {
        let text = info(&mut client, "memory", name).expect("a line");
        text.parse().expect("a number")
    };
    assert!(number("used_memory_vm_eval") > before);
    assert_eq!(number("used_memory_scripts_eval"), 8);
    let of_functions = number("used_memory_vm_functions");
    assert!(of_functions > 0 && number("used_memory_functions") > 0);
    assert_eq!(number("used_memory_vm_total"), number("used_memory_lua") + of_functions);
}

#[test]
fn commands_that_share_their_time_are_all_counted() {
    let mut client = Client::new(&engine());
    let script = "for i = 1, 40 do redis.call('set', KEYS[1], i) end \
        for i = 1, 3 do redis.call('GET', KEYS[1]) redis.pcall('hget', KEYS[1], 'f') end \
        return redis.call('get', KEYS[1]) .. redis.call('incr', KEYS[2])";
    assert_eq!(eval(&mut client, script, &["k", "n"]), "\"401\"");
    let mut stat = |name: &str| {
        let line = info(&mut client, "commandstats", name).expect("a line");
        let part =
            |of: &str| line.split(',').find_map(|part| part.strip_prefix(of)).map(str::to_owned);
        (part("calls="), part("failed_calls="))
    };
    let counted = |calls: &str, failed: &str| (Some(calls.to_owned()), Some(failed.to_owned()));
    assert_eq!(stat("cmdstat_set"), counted("40", "0"));
    assert_eq!(stat("cmdstat_get"), counted("4", "0"));
    assert_eq!(stat("cmdstat_hget"), counted("3", "3"));
    assert_eq!(stat("cmdstat_incr"), counted("1", "0"));
}
