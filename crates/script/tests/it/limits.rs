//! Scripts that do not end by themselves, or that exceed limits.

use crate::support::{MEMORY, TestHost, eval, eval_in};
use script::Interpreter;
use std::thread;
use std::time::{Duration, Instant};

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
fn a_kill_ends_what_is_one_instruction_or_one_call() {
    let mut failed = Vec::new();
    const S: &str = "local s, n = ('x'):rep(1e6), ('0'):rep(1e6) ";
    const T: &str = "local t = {} for i = 1, 5e5 do t[i] = i end ";
    for (prepared, repeated) in [
        (S, "local c = s .. i"),
        (S, "local c = s < s .. 'y'"),
        (S, "local c = n + 1"),
        (S, "for i = n, n do end"),
        (S, "tonumber(n)"),
        (S, "s:upper()"),
        (S, "s:lower()"),
        (S, "s:reverse()"),
        (S, "s:rep(2)"),
        (S, "s:sub(2)"),
        (S, "string.format('%s', s)"),
        (S, "string.format('%q', s)"),
        (S, "string.format(s)"),
        (S, "s:find('y', 1, true)"),
        (S, "s:find('y')"),
        (S, "s:find('[y' .. n .. ']')"),
        (S, "s:match('%f[y]')"),
        (S, "s:gsub('x', 'y')"),
        (S, "s:gsub('y', {})"),
        (S, "redis.sha1hex(s)"),
        (S, "redis.call('echo', s)"),
        (S, "redis.log(0, s)"),
        (S, "cjson.encode(s)"),
        (S, "cjson.decode('\"' .. s .. '\"')"),
        (S, "cmsgpack.pack(s)"),
        (S, "cmsgpack.unpack(cmsgpack.pack(s))"),
        (S, "struct.pack('s', s)"),
        (S, "struct.unpack('s', s .. '\\0')"),
        (S, "struct.size(('b'):rep(1e6))"),
        (S, "loadstring('return \"' .. s .. '\"')"),
        (T, "table.concat(t)"),
        (T, "table.insert(t, 1, 0)"),
        (T, "table.remove(t, 1)"),
        (T, "table.maxn(t)"),
        (T, "table.foreach(t, math.randomseed)"),
        (T, "table.foreachi(t, math.randomseed)"),
        (T, "table.sort(t)"),
        (T, "cjson.encode(t)"),
        (T, "cmsgpack.pack(t)"),
        (T, "collectgarbage()"),
        (
            "local t = {} for i = 1, 5e5 do t[i] = i end for i = 1, 5e5 do t[i] = nil end ",
            "next(t)",
        ),
    ] {
        // Few instructions are repeated: the preparation has been polled for already.
        let script = format!("{prepared} for i = 1, 200 do {repeated} end");
        let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
        let mut host = TestHost::default();
        eval_in(&mut interpreter, prepared, &mut host);
        host.polls_left = Some(host.polls + 8);
        host.polls = 0;
        let reply = eval_in(&mut interpreter, &script, &mut host);
        if !reply.contains("Script killed") {
            failed.push(format!("{repeated}: {reply:.100} after {} questions", host.polls));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_host_is_asked_within_one_call() {
    let large = "local t = {} for i = 1, 2e5 do t[i] = i % 1000 end ";
    for (prepared, call) in [
        ("", "('x'):rep(5e7)"),
        ("local s = ('x'):rep(2e7) ", "s:upper()"),
        ("local s = ('x'):rep(2e7) ", "s:reverse()"),
        ("local s = ('x'):rep(2e7) ", "string.format('%q', s)"),
        ("local s = ('x'):rep(2e7) ", "redis.sha1hex(s)"),
        (large, "table.sort(t)"),
        (large, "table.concat(t, ',')"),
        (large, "cjson.encode(t)"),
        ("local s = '[' .. ('1,'):rep(1e5) .. '1]'", "cjson.decode(s)"),
    ] {
        let polls = |script: &str| {
            let mut host = TestHost::default();
            let mut interpreter = Interpreter::new(256 << 20).expect("an interpreter");
            let reply = eval_in(&mut interpreter, script, &mut host);
            assert_eq!(reply, "nil", "{script}");
            host.polls
        };
        let within = polls(&format!("{prepared} {call}")) - polls(prepared);
        assert!(within >= 3, "{call}: {within}");
    }
}

#[test]
fn long_lists_of_jumps_compile_at_once() {
    let chain = |first: &str, others: &str, last: &str| {
        format!("local a, b = 1, false {first}{}{last}", others.repeat(32_000))
    };
    for (script, expected) in [
        (chain("if b then", " elseif b then", " else return 7 end"), "7"),
        (chain("return a", " and a", " and 7"), "7"),
        (chain("return b", " or b", " or 7"), "7"),
        (chain("while true do", " do break end", " end return 7"), "7"),
        (chain("while true do", " if a then break end", " end return 7"), "7"),
    ] {
        let begin = Instant::now();
        for number in 0..10 {
            assert_eq!(eval(&format!("{script} -- {number}")), expected, "{script:.40}");
        }
        // If each were appended by a walk over all of them, it would take a minute.
        assert!(begin.elapsed() < Duration::from_secs(10), "{script:.40}: {:?}", begin.elapsed());
    }
}

#[test]
fn what_would_keep_the_compiler_busy_is_refused() {
    let scopes = "local function f() local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r ";
    let nested = scopes.repeat(80) + &"x() ".repeat(400_000) + &"end ".repeat(80);
    for (script, expected) in [
        ("a=1 ".repeat(1_400_000), "chunk has too many tokens"),
        (nested, "chunk has too many names in too many scopes"),
        (" ".repeat(65 << 20), "chunk is too long"),
    ] {
        let mut interpreter = Interpreter::new(512 << 20).expect("an interpreter");
        let reply = eval_in(&mut interpreter, &script, &mut TestHost::default());
        let expected =
            format!("-ERR Error compiling script (new function): user_script:1: {expected}");
        assert_eq!(reply, expected);
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
    // Results of functions of Rust are not in Lua's memory.
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
