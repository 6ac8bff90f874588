//! The conversion of replies by `redis.call`, on Lua's stack and off it.

use crate::support::{MEMORY, TestHost, eval_in, show};
use script::{Continue, Host, Interpreter, Invocation, LogLevel};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Replies each command with the same bytes, or panics.
struct Fixed(Option<Vec<u8>>);

impl Host for Fixed {
    fn call(&mut self, _: &[&[u8]], _: bool, reply: &mut Vec<u8>) -> bool {
        match &self.0 {
            Some(fixed) => reply.extend_from_slice(fixed),
            None => panic!("no reply"),
        }
        true
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn acl_check(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_replication(&mut self, _: u8) {}

    fn poll(&mut self) -> Continue {
        Continue::Yes
    }
}

/// Runs a script whose commands get this reply.
fn with_reply(interpreter: &mut Interpreter, script: &str, reply: &[u8]) -> String {
    let script = interpreter.load(script.as_bytes()).expect("a script");
    let mut host = Fixed(Some(reply.to_vec()));
    show(&interpreter.run(&script, Invocation::default(), &mut host).reply, script.sha())
}

#[track_caller]
fn check(reply: &[u8], expected: &str) {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let shown = with_reply(&mut interpreter, "return redis.call('x')", reply);
    assert_eq!(shown, expected, "{}", reply.escape_ascii());
}

#[test]
fn replies_of_all_shapes_are_read() {
    check(b"+OK\r\n", "+OK");
    check(b"+\r\n", "+");
    check(b"+a b\r\n", "+a b");
    check(b"$-1\r\n", "nil");
    check(b"*-1\r\n", "nil");
    check(b"$0\r\n\r\n", "\"\"");
    check(b"$3\r\na\r\n\r\n", "\"a\\r\\n\"");
    check(b":-12\r\n", "-12");
    check(b":9007199254740992\r\n", "9007199254740992");
    check(b"*0\r\n", "[]");
    check(b"*4\r\n$1\r\na\r\n:1\r\n+OK\r\n+QUEUED\r\n", "[\"a\" 1 +OK +QUEUED]");
    check(b"*2\r\n$-1\r\n:1\r\n", "[nil 1]");
    check(b"*2\r\n*1\r\n$1\r\na\r\n*0\r\n", "[[\"a\"] []]");
    check(b"*3\r\n:1\r\n-ERR no\r\n*1\r\n:2\r\n", "[1 -ERR no [2]]");
    check(b"%1\r\n+a\r\n:1\r\n", "[+a 1]");
    check(b"_\r\n", "nil");
}

#[test]
fn long_lists_are_read() {
    for length in [65_536, 65_537] {
        let mut reply = format!("*{length}\r\n").into_bytes();
        (0..length).for_each(|_| reply.extend_from_slice(b":1\r\n"));
        let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
        let length = length.to_string();
        assert_eq!(with_reply(&mut interpreter, "return #redis.call('x')", &reply), length);
    }
}

#[test]
fn a_reply_that_is_cut_is_an_error() {
    let whole = b"*2\r\n$3\r\nabc\r\n*1\r\n+OK\r\n";
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    for length in 0..whole.len() {
        let shown = with_reply(&mut interpreter, "return redis.call('x')", &whole[..length]);
        let expected = "-ERR ERR the reply is incomplete";
        assert!(shown.starts_with(expected), "{length}: {shown}");
    }
    assert_eq!(with_reply(&mut interpreter, "return redis.call('x')", whole), "[\"abc\" [+OK]]");
}

#[test]
fn errors_are_raised_and_returned_wherever_the_call_is() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let raised = "-WRONG no script: SHA, on @user_script:1.";
    for (script, expected) in [
        ("return redis.call('x')", raised),
        ("redis.call('x')", raised),
        ("return redis.pcall('x')", "-WRONG no"),
        ("return redis.pcall('x').err", "\"WRONG no\""),
        ("return {pcall(redis.call, 'x')}", "[nil \"WRONG no\"]"),
        ("return {pcall(redis.pcall, 'x')}", "[1 -WRONG no]"),
        (
            "local c = coroutine.wrap(function(x) return redis.pcall(x) end) return c('x')",
            "-WRONG no",
        ),
        (
            "local c = coroutine.wrap(function(x) return redis.call(x) end) c('x')",
            "-WRONG no script: SHA, on @user_script:1.",
        ),
        ("local f = redis.pcall for i = 1, 1000 do f('x') end return f('x').err", "\"WRONG no\""),
    ] {
        let shown = with_reply(&mut interpreter, script, b"-WRONG no\r\n");
        assert_eq!(shown, expected, "{script}");
    }
}

#[test]
fn a_panic_of_the_host_passes_through_lua() {
    for script in [
        "redis.call('x')",
        "redis.pcall('x')",
        "pcall(redis.call, 'x')",
        "coroutine.wrap(function() redis.call('x') end)()",
    ] {
        let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
        let script = interpreter.load(script.as_bytes()).expect("a script");
        let ended = catch_unwind(AssertUnwindSafe(|| {
            interpreter.run(&script, Invocation::default(), &mut Fixed(None))
        }));
        let payload = ended.expect_err("a panic");
        assert_eq!(payload.downcast_ref::<&str>().copied(), Some("no reply"), "{}", script.sha());
    }
}

/// An error of a function of Rust goes through the handler of errors, and an error of the handler
/// itself ends the run.
#[test]
fn an_error_while_an_error_is_handled_ends_the_run() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut run = |script: &str| with_reply(&mut interpreter, script, b"-WRONG no\r\n");
    for round in 0..3 {
        let raised = run("error(setmetatable({}, {__index = function() error('again') end}))");
        assert_eq!(raised, "-ERR unknown error script: SHA, on @user_script:1.", "{round}");
        let raised = run("redis.call('x')");
        assert_eq!(raised, "-WRONG no script: SHA, on @user_script:1.", "{round}");
        assert!(run("local function f() return 1 + f() end f()").contains("stack overflow"));
        assert!(
            run("local t, i = {}, 0 while true do i = i + 1 t[i] = ('x'):rep(1e6) .. i end")
                .ends_with("not enough memory")
        );
    }
}

#[test]
fn results_of_all_shapes_are_replied() {
    for (result, expected) in [
        ("", "nil"),
        ("return nil", "nil"),
        ("return true", "1"),
        ("return false", "nil"),
        ("redis.setresp(3) return false", "#false"),
        ("redis.setresp(3) return true", "#true"),
        ("return 3.99", "3"),
        ("return -1e300", "-9223372036854775808"),
        ("return 'a\\0b', 2", "\"a\\0b\""),
        ("return {ok = 'A\\r\\nB'}", "+A  B"),
        ("return {ok = 1}", "[]"),
        ("return {ok = 'x', err = 'E y'}", "-E y"),
        ("return {ok = 'x', err = 1}", "+x"),
        ("return setmetatable({}, {__index = {ok = 'x'}})", "[]"),
        ("return {ok = 'x', 1, 2}", "+x"),
        ("return {1, {ok = 'x'}}", "[1 +x]"),
        ("return redis.call('x')", "+DONE"),
        ("return function() end", "nil"),
        ("return unpack({1, 2, 3})", "1"),
    ] {
        let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
        let shown = with_reply(&mut interpreter, result, b"+DONE\r\n");
        assert_eq!(shown, expected, "{result}");
    }
}

/// Lists that are too long for Lua's stack are passed by handles, with the same result.
#[test]
fn keys_and_arguments_of_any_number_are_passed() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let script = interpreter.load(b"return {#KEYS, KEYS[#KEYS], #ARGV, ARGV[#ARGV]}");
    let (script, all) = (script.expect("a script"), vec![&b"k"[..]; 70_000]);
    for count in [1, 65_536, 65_537, 70_000] {
        for (keys, arguments) in [(count, 1), (1, count)] {
            let invocation = Invocation { keys: &all[..keys], arguments: &all[..arguments] };
            let outcome = interpreter.run(&script, invocation, &mut Fixed(None));
            let shown = show(&outcome.reply, script.sha());
            assert_eq!(shown, format!("[{keys} \"k\" {arguments} \"k\"]"));
        }
    }
}

/// What a script returns for its keys and its arguments, each list joined by commas.
type Expected = fn(&str, &str) -> String;

/// Each use of the lists that distinguishes a shared one from a script's own, and the result.
const USES: [(&str, Expected); 5] = [
    (
        "local all = '' for i = 1, #KEYS do all = all .. KEYS[i] .. ',' end all = all .. '|'
        for i = 1, #ARGV do all = all .. ARGV[i] .. ',' end
        local n = #KEYS + 1 return all .. tostring(KEYS[n]) .. tostring(ARGV[-1])",
        |keys, arguments| format!("{keys}|{arguments}nilnil"),
    ),
    (
        "table.insert(KEYS, 'x') ARGV[1] = 'y' setmetatable(ARGV, {__index = {'z'}})
        return table.concat(KEYS, ',') .. ','",
        |keys, _| format!("{keys}x,"),
    ),
    (
        "local list = ARGV table.remove(list) return table.concat(KEYS, ',') .. ',' .. #list",
        |keys, arguments| {
            let count = arguments.matches(',').count().saturating_sub(1);
            format!("{},{count}", keys.strip_suffix(',').unwrap_or(keys))
        },
    ),
    (
        "local all = '' for i = 1, 50 do all = all .. (ARGV[i] or '') .. ',' end return all",
        |_, arguments| format!("{arguments}{}", ",".repeat(50 - arguments.matches(',').count())),
    ),
    ("return #KEYS .. ''", |keys, _| keys.matches(',').count().to_string()),
];

#[test]
fn scripts_that_share_a_list_find_their_own_items_alone() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut random = 7u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for round in 0..3000 {
        let mut list = || -> Vec<String> {
            let (count, length) = match draw(4) {
                0 => (draw(3), 300),
                1 => (draw(40), 200),
                _ => (draw(5), 5),
            };
            (0..count).map(|n| format!("{round}{n}").repeat(draw(length) as usize)).collect()
        };
        let (keys, arguments) = (list(), list());
        let joined = |items: &[String]| items.iter().map(|item| item.clone() + ",").collect();
        let [all_keys, all_arguments]: [String; 2] = [joined(&keys), joined(&arguments)];
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        let (source, expected) = USES[draw(USES.len() as u64) as usize];
        let script = interpreter.load(source.as_bytes()).expect("a script");
        let invocation = Invocation { keys: &keys, arguments: &arguments };
        let outcome = interpreter.run(&script, invocation, &mut Fixed(None));
        let expected = format!("{:?}", expected(&all_keys, &all_arguments));
        assert_eq!(show(&outcome.reply, script.sha()), expected, "round {round}: {source}");
    }
}

#[test]
fn a_reply_beyond_the_limit_of_memory_is_an_error() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut reply = format!("${MEMORY}\r\n").into_bytes();
    reply.resize(reply.len() + MEMORY, b'x');
    reply.extend_from_slice(b"\r\n");
    let refused = "-ERR Error running script SHA, not enough memory";
    for script in ["return #redis.call('x')", "return #redis.pcall('x')"] {
        assert_eq!(with_reply(&mut interpreter, script, &reply), refused, "{script}");
        assert_eq!(with_reply(&mut interpreter, "return redis.call('x')", b":1\r\n"), "1");
    }
    // The result of each call fits, but all of them together do not.
    let script = "local t = {} for i = 1, 100 do t[i] = redis.call('x') .. i end";
    let mut reply = format!("${}\r\n", MEMORY / 64).into_bytes();
    reply.resize(reply.len() + MEMORY / 64, b'x');
    reply.extend_from_slice(b"\r\n");
    assert_eq!(with_reply(&mut interpreter, script, &reply), refused);
    assert_eq!(eval_in(&mut interpreter, "return 1", &mut TestHost::default()), "1");
}

#[test]
fn many_arguments_are_passed() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let script = "local t = {'set'} for i = 1, 5000 do t[i + 1] = i end \
        return redis.pcall(unpack(t)).err";
    let refused = "\"ERR Wrong number of args calling Redis command from script\"";
    assert_eq!(eval_in(&mut interpreter, script, &mut TestHost::default()), refused);
    let script = "return redis.call('echo', -0.0)";
    assert_eq!(eval_in(&mut interpreter, script, &mut TestHost::default()), "\"-0\"");
}
