//! Error texts, the same as in redis-server 7.0.15.

use crate::support::eval;

#[test]
fn an_error_names_script_source_and_line() {
    let on = |line: u32| format!(" script: SHA, on @user_script:{line}.");
    for (script, expected, line) in [
        ("error('x')", "-ERR user_script:1: x", 1),
        ("\n\nerror('x')", "-ERR user_script:3: x", 3),
        ("error()", "-ERR nil", 1),
        ("error(true)", "-ERR true", 1),
        ("error({err='a', x=1})", "-a", 1),
        ("error({err='My Err'})", "-My Err", 1),
        (
            "return foo",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo'",
            1,
        ),
        ("foo = 1", "-ERR user_script:1: Attempt to modify a readonly table", 1),
        ("string.x = 1", "-ERR user_script:1: Attempt to modify a readonly table", 1),
        ("return setmetatable(_G, {})", "-ERR Attempt to modify a readonly table", 1),
        ("return redis.call('nosuch')", "-ERR Unknown Redis command called from script", 1),
        (
            "return redis.call()",
            "-ERR Please specify at least one argument for this redis lib call",
            1,
        ),
        (
            "return redis.call('set', 'a', {})",
            "-ERR Lua redis lib command arguments must be strings or integers",
            1,
        ),
        (
            "return math.random(0)",
            "-ERR user_script:1: bad argument #1 to 'random' (interval is empty)",
            1,
        ),
        (
            "return bit.band()",
            "-ERR user_script:1: bad argument #1 to 'band' (number expected, got no value)",
            1,
        ),
        ("return redis.log()", "-ERR redis.log() requires two arguments or more.", 1),
        ("return redis.setresp(4)", "-ERR RESP version must be 2 or 3.", 1),
        ("return redis.sha1hex()", "-ERR wrong number of arguments", 1),
        ("coroutine.yield()", "-ERR attempt to yield across metamethod/C-call boundary", 1),
        (
            "local function f() return f() + 1 end return f()",
            "-ERR user_script:1: stack overflow",
            1,
        ),
        (
            "return string.rep({})",
            "-ERR user_script:1: bad argument #1 to 'rep' (string expected, got table)",
            1,
        ),
        (
            "local t = setmetatable({}, {__metatable=1}) return setmetatable(t, {})",
            "-ERR user_script:1: cannot change a protected metatable",
            1,
        ),
    ] {
        assert_eq!(eval(script), format!("{expected}{}", on(line)), "{script}");
    }
}

#[test]
fn errors_of_compiling_have_the_position() {
    let compiling = "-ERR Error compiling script (new function): ";
    assert_eq!(eval("retur"), format!("{compiling}user_script:1: '=' expected near '<eof>'"));
    assert_eq!(eval("end"), format!("{compiling}user_script:1: '<eof>' expected near 'end'"));
}

#[test]
fn a_returned_error_is_a_reply() {
    assert_eq!(eval("return redis.error_reply('a b')"), "-a b");
    assert_eq!(eval("return redis.error_reply('x')"), "-ERR x");
    assert_eq!(eval("return {err='My Err'}"), "-My Err");
    assert_eq!(eval("return redis.pcall('fail')"), "-WRONGTYPE Operation against a key");
    let caught = "[nil \"ERR Unknown Redis command called from script\"]";
    assert_eq!(eval("return {pcall(redis.call, 'x')}"), caught);
}
