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

/// The words of the last call are kept: others of the same length, at the same position, after an
/// error, and those that are too many or too long to be kept.
#[test]
fn each_call_has_its_own_words() {
    let numbers = "redis.call('echo', 7) .. redis.call('echo', -7.0) .. redis.call('echo', 2^53)";
    for (script, expected) in [
        (
            "local all = '' for i = 1, 3 do for _, w in ipairs{'a', 'b', KEYS[1]} do \
             all = all .. redis.call('echo', w) .. redis.call('echo', w .. i) end end return all",
            "\"aa1bb1kk1aa2bb2kk2aa3bb3kk3\"",
        ),
        (
            "for i = 1, 9 do redis.call('set', 'x' .. i % 2, 'v' .. i) end \
             return redis.call('get', 'x0') .. redis.call('get', 'x1')",
            "\"v8v9\"",
        ),
        (
            "redis.pcall('set', 'a') redis.pcall('set', {}, 'a') redis.call('set', 'k', 'v') \
             return redis.call('get', 'k')",
            "\"v\"",
        ),
        (
            "local long, all = ('x'):rep(5000), 0 for i = 1, 3 do \
             all = all + #redis.call('echo', long .. i) + #redis.call('echo', '') end return all",
            "15003",
        ),
        (&format!("return {numbers}"), "\"7-79007199254740992\""),
        ("return redis.call('echo', '0.1') .. redis.call('echo', '1e3')", "\"0.11e3\""),
        ("return redis.call('echo', '\\255\\0') == '\\255\\0'", "1"),
    ] {
        assert_eq!(eval(script), expected, "{script}");
    }
}

#[test]
fn what_is_no_word_is_refused_wherever_it_is() {
    let refused = "-ERR Lua redis lib command arguments must be strings or integers \
        script: SHA, on @user_script:1.";
    for arguments in [
        "nil",
        "'echo', nil",
        "'set', 'k', 'v', nil",
        "'set', 'k', 'v', 'a', nil",
        "'set', 'k', 'v', 'a', 'b', nil",
        "'set', nil, 'v'",
        "'set', 'k', 'v', nil, 'b', 'c'",
        "'echo', {}",
        "'echo', true",
        "'set', 'k', 'v', 'a', 'b', print",
    ] {
        let arguments = arguments.replace("print", "function() end");
        assert_eq!(eval(&format!("return redis.call({arguments})")), refused, "{arguments}");
        let caught = eval(&format!("return redis.pcall({arguments}).err"));
        let text = "\"ERR Lua redis lib command arguments must be strings or integers\"";
        assert_eq!(caught, text, "{arguments}");
    }
    let missing = "-ERR Please specify at least one argument for this redis lib call \
        script: SHA, on @user_script:1.";
    assert_eq!(eval("return redis.call()"), missing);
    let wrong = "-ERR Wrong number of args calling Redis command from script \
        script: SHA, on @user_script:1.";
    assert_eq!(eval("return redis.call('echo')"), wrong);
    assert_eq!(eval("return redis.call('set', 'k', 'v', 'a', 'b', 'c')"), wrong);
}

/// Kept words refer to the Lua state, and must not keep it alive forever.
#[test]
fn words_are_forgotten_at_the_end_of_a_run() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost::default();
    let used = |interpreter: &mut Interpreter| {
        interpreter.flush();
        interpreter.used_memory()
    };
    let run = "redis.call('set', ('k'):rep(1000), ('v'):rep(1000)) return 1";
    assert_eq!(eval_in(&mut interpreter, run, &mut host), "1");
    let before = used(&mut interpreter);
    for n in 0..100 {
        let run = format!("redis.call('set', ('k'):rep(1000), ('v'):rep(900 + {n})) return 1");
        assert_eq!(eval_in(&mut interpreter, &run, &mut host), "1");
    }
    // The table of strings may have grown; the words would be 200,000 bytes.
    let after = used(&mut interpreter);
    assert!(after <= before + 20_000, "{before} bytes became {after}");
}

/// A status is a table of its own each time: a script may change it.
#[test]
fn each_status_is_a_table_of_its_own() {
    let script = "local a = redis.call('set', 'k', 'v') a.ok = 'changed' a.more = 1 \
        local b = redis.call('set', 'k', 'v') return {a == b, b.ok, b.more == nil, a.ok}";
    assert_eq!(eval(script), "[nil \"OK\" 1 \"changed\"]");
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
