//! Values in both directions.

use crate::support::{MEMORY, TestHost, eval, eval_in};
use script::{Interpreter, LogLevel};

#[test]
fn lua_values_become_replies() {
    for (script, expected) in [
        ("return 3.99", "3"),
        ("return -3.99", "-3"),
        ("return 0/0", "-9223372036854775808"),
        ("return 'x'", "\"x\""),
        ("return true", "1"),
        ("return false", "nil"),
        ("return", "nil"),
        ("return {1, 2, nil, 4}", "[1 2]"),
        ("return {1.9, {'a'}, false}", "[1 [\"a\"] nil]"),
        ("return {ok = 'a\\nb'}", "+a b"),
        ("return {double = 3.5}", ",3.5"),
        ("return {map = {a = 1}}", "%[\"a\"=1]"),
        ("return {set = {a = true}}", "~[\"a\"]"),
        ("return {big_number = '12'}", "(12"),
        ("return {verbatim_string = {string = 's', format = 'mkd'}}", "=mkd:s"),
        ("redis.setresp(3) return {true, false}", "[#true #false]"),
        ("return {KEYS[1], ARGV[1], ARGV[2], #KEYS}", "[\"k\" \"a\" \"b\" 1]"),
        ("return redis.status_reply('fine')", "+fine"),
        ("return function() end", "nil"),
    ] {
        assert_eq!(eval(script), expected, "{script}");
    }
}

#[test]
fn replies_become_lua_values() {
    for (script, expected) in [
        ("return redis.call('ping').ok", "\"PONG\""),
        ("return redis.call('get', 'missing') == false", "1"),
        ("redis.setresp(3) return redis.call('get', 'missing') == nil", "#true"),
        ("return redis.call('echo', 1e15)", "\"1000000000000000\""),
        ("return redis.call('echo', 0.1)", "\"0.10000000000000001\""),
        ("return redis.call('echo', 1e100)", "\"1.0000000000000000e+100\""),
        ("return redis.call('types')", "[[\"k\" 1] [\"m\"] \"0.5\" 1 \"123\" \"t\" nil]"),
        (
            "redis.setresp(3) local t = redis.call('types') return {t[1].map.k, t[2].set.m, \
             tostring(t[3].double), t[4], t[5].big_number, t[6].verbatim_string.format}",
            "[1 #true \"0.5\" #true \"123\" \"txt\"]",
        ),
        ("return redis.pcall('fail').ignore_error_stats_update", "1"),
    ] {
        let expected = expected.replace("1.0000000000000000e+100", "1e+100");
        assert_eq!(eval(script), expected, "{script}");
    }
}

#[test]
fn the_host_is_reached() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost::default();
    let script = "redis.log(redis.LOG_WARNING, 'a', 1) redis.set_repl(redis.REPL_AOF) \
        redis.call('set', KEYS[1], ARGV[1]) \
        return {redis.acl_check_cmd('get', 'k'), redis.acl_check_cmd('set', 'k', 'v')}";
    assert_eq!(eval_in(&mut interpreter, script, &mut host), "[1 nil]");
    assert_eq!(host.log, [(LogLevel::Warning, "a 1".to_owned())]);
    assert_eq!(host.replication, Some(1));
    assert_eq!(host.keys.get(&b"k"[..]).map(Vec::as_slice), Some(&b"a"[..]));
    let again = interpreter.load(script.as_bytes()).expect("a script");
    assert_eq!(
        interpreter.cached(again.sha()).map(|script| script.sha().to_owned()).as_deref(),
        Some(again.sha())
    );
    interpreter.flush();
    assert!(interpreter.cached(again.sha()).is_none());
}
