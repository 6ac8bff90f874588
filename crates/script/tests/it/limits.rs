//! Scripts that do not end by themselves, or not well.

use crate::support::{MEMORY, TestHost, eval, eval_in};
use script::Interpreter;
use std::thread;

/// Runs a script that is killed after a few polls.
fn killed(script: &str) -> String {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost { polls_left: Some(5), ..TestHost::default() };
    let reply = eval_in(&mut interpreter, script, &mut host);
    host.polls_left = None;
    assert_eq!(eval_in(&mut interpreter, "return 1", &mut host), "1", "after {script}");
    reply.split(" script: SHA").next().unwrap_or_default().to_owned()
}

#[test]
fn a_kill_cannot_be_caught() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "repeat until pcall(error) == nil",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
        "table.sort({3, 2, 1}, function() while true do end end)",
        "string.gsub('aaa', 'a', function() while true do end end)",
        "while true do loadstring('while true do end')() end",
        "local t = {1} for i = 1, 60 do t = {t, t} end return t",
        "local t = {1} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 1e4 do t[i] = 1 end for i = 1, 9 do t = {t, t, t, t, t, t} end \
         return cmsgpack.pack(t)",
    ] {
        assert_eq!(killed(script), "-ERR Script killed by user with SCRIPT KILL...", "{script}");
    }
}

#[test]
fn recursion_ends_with_an_error() {
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() return (pcall(f)) end f() error('over')",
        "local t = {} setmetatable(t, {__index = function(t, k) return t[k] end}) return t.x",
        "local function f() return coroutine.wrap(f)() end f()",
        "local function f() coroutine.resume(coroutine.create(f)) end f() error('over')",
        "local function f(a) return (string.gsub('a', 'a', f)) end return f()",
        "local function f() table.sort({2, 1, 3}, f) end f() error('over')",
        "return loadstring(('('):rep(100000))()",
        "error(loadstring('return ' .. ('{'):rep(100000)) == nil and 'over')",
        "return string.find(('a'):rep(1e6), ('a?'):rep(1e6))",
        "return string.match(('a'):rep(1e5), ('(a)'):rep(1000))",
    ] {
        // As much stack as the server's threads have.
        let script = script.to_owned();
        let thread = thread::Builder::new().stack_size(2 << 20);
        let reply = thread.spawn(move || (eval(&script), script)).expect("a thread");
        let (reply, script) = reply.join().expect("no panic");
        assert!(reply.starts_with("-ERR"), "{script}: {reply}");
    }
}

#[test]
fn a_table_inside_of_itself_is_returned_up_to_a_depth() {
    assert!(eval("local a = {} a[1] = a return a").contains("-ERR reached lua stack limit"));
}

#[test]
fn memory_is_limited_and_comes_back() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost::default();
    let before = interpreter.used_memory();
    for script in [
        "return string.rep('x', 1e9)",
        "return string.rep('x', 1e18)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = 'x' .. i end",
        "local f = 'x' for i = 1, 40 do f = f:gsub('.', '%0%0') end",
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255' .. ('\\192'):rep(10))",
    ] {
        let reply = eval_in(&mut interpreter, script, &mut host);
        let is_refused = reply.contains("not enough memory") || reply.contains("Missing bytes");
        assert!(reply.starts_with("-ERR") && is_refused, "{script}: {reply:.200}");
        assert_eq!(eval_in(&mut interpreter, "return 1", &mut host), "1", "after {script}");
    }
    // What functions of Rust make is not in Lua's memory.
    let shared = "local s = ('\\1'):rep(1e6) local t = {} for i = 1, 600 do t[i] = s end return ";
    for made in [
        "t",
        "{map = t}",
        "{{err = s}, t}",
        "cjson.encode(t)",
        "cmsgpack.pack(t)",
        "struct.pack(('s'):rep(600), unpack(t))",
        "redis.log(2, unpack(t))",
        "cmsgpack.unpack(('\\1'):rep(2e7))",
        "struct.unpack(('B'):rep(2e7), ('\\1'):rep(2e7))",
    ] {
        let reply = eval_in(&mut interpreter, &format!("{shared}{made}"), &mut host);
        assert_eq!(reply, "-ERR Error running script SHA, not enough memory", "{made}");
    }
    interpreter.flush();
    // Lua's table of strings shrinks by half in each collection.
    let after = interpreter.used_memory();
    assert!(after < before + (2 << 20), "{before} bytes before, {after} after");
    assert_eq!(eval("return string.rep('', 1e15)"), "\"\"");
}

#[test]
fn error_objects_of_all_kinds_are_replied() {
    for (object, expected) in [
        ("nil", "-ERR nil"),
        ("true", "-ERR true"),
        ("12", "-ERR user_script:1: 12"),
        ("{}", "-ERR unknown error"),
        ("{err = 1}", "-1"),
        ("{err = {}}", "-ERR unknown error"),
        ("setmetatable({}, {__index = function() error('x') end})", "-ERR unknown error"),
        ("setmetatable({}, {__tostring = function() error('x') end})", "-ERR unknown error"),
    ] {
        let reply = eval(&format!("error({object})"));
        assert_eq!(reply, format!("{expected} script: SHA, on @user_script:1."), "{object}");
    }
    for object in ["print", "coroutine.create(function() end)", "function() end"] {
        let reply = eval(&format!("error({object})"));
        assert!(reply.starts_with("-ERR"), "{object}: {reply}");
    }
}

#[test]
fn memory_that_ran_out_is_replied_as_in_redis() {
    for script in [
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "return string.gsub(('x'):rep(1e5), '.', ('x'):rep(1e5))",
    ] {
        let reply = eval(script);
        assert_eq!(reply, "-ERR Error running script SHA, not enough memory", "{script}");
    }
}

#[test]
fn scripts_of_eval_are_forgotten_and_loaded_ones_kept() {
    let mut interpreter = Interpreter::new(4 << 20).expect("an interpreter");
    let kept = interpreter.load_kept(b"return 'kept'").expect("a script");
    let used = interpreter.load(b"return 'used'").expect("a script");
    let first = interpreter.load(b"return 'first'").expect("a script");
    for number in 0..20_000 {
        let script = format!("return {number}");
        let reply = eval_in(&mut interpreter, &script, &mut TestHost::default());
        assert_eq!(reply, number.to_string());
        assert!(interpreter.cached(used.sha()).is_some(), "after {number} others");
    }
    assert!(interpreter.cached(kept.sha()).is_some());
    assert!(interpreter.cached(first.sha()).is_none());
}
