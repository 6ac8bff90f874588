//! What scripts must not be able to do, including published exploits.

use crate::support::{MEMORY, TestHost, eval, eval_in};
use script::Interpreter;

/// Returns the part of an error before the script's name.
fn error_of(script: &str) -> String {
    let reply = eval(script);
    assert!(reply.starts_with('-'), "{script}: {reply}");
    reply.split(" script: SHA").next().unwrap_or_default().to_owned()
}

#[test]
fn there_is_no_way_to_files_packages_or_the_debugger() {
    for name in [
        "os",
        "io",
        "debug",
        "package",
        "require",
        "module",
        "loadfile",
        "dofile",
        "print",
        "__redis__err__handler",
        // Redis does not have them either: they reach the environment of other scripts.
        "getfenv",
        "setfenv",
        "newproxy",
    ] {
        let missing = format!(
            "-ERR user_script:1: Script attempted to access nonexistent global variable '{name}'"
        );
        assert_eq!(error_of(&format!("return {name}")), missing);
    }
    // CVE-2022-0543: the table `package` that a distribution's build left in place.
    assert_eq!(eval("return rawget(_G, 'package') == nil"), "1");
    assert_eq!(eval("local n = 0 for name in pairs(_G) do n = n + 1 end return n > 20"), "1");
}

#[test]
fn shared_tables_cannot_be_changed() {
    for script in [
        "redis = 1",
        "redis.call = 1",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'x', 1)",
        "setmetatable(_G, {})",
        "setmetatable(string, {})",
        "table.insert(redis, 1)",
        "table.remove(redis)",
        "table.sort(math)",
        "getmetatable(_G).__index = nil",
        "getmetatable('').__index = nil",
        "getmetatable('').__index.upper = nil",
        "bit.x = 1",
        "cjson.x = 1",
        "server.x = 1",
        "coroutine.x = 1",
    ] {
        let error = error_of(script);
        assert!(error.ends_with("Attempt to modify a readonly table"), "{script}: {error}");
    }
}

#[test]
fn nothing_stays_for_the_next_script() {
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let mut host = TestHost::default();
    for script in [
        "pcall(function() x = 1 end)",
        "pcall(rawset, _G, 'x', 1)",
        "pcall(table.insert, _G, 1)",
        "pcall(function() getmetatable('').__index = { upper = function() return 1 end } end)",
        // The digits of a number are accepted as one, and level 0 is the thread.
        "setfenv('0', { redis = {}, tostring = tostring })",
        "collectgarbage('stop')",
        "redis.setresp(3)",
        "math.randomseed(7)",
    ] {
        eval_in(&mut interpreter, script, &mut host);
    }
    let mut check = |script: &str, expected: &str| {
        assert_eq!(eval_in(&mut interpreter, script, &mut host), expected, "{script}");
    };
    check("return rawget(_G, 'x')", "nil");
    check(
        "return _G[1]",
        "-ERR user_script:1: Script attempted to access nonexistent global variable '1' script: SHA, on @user_script:1.",
    );
    check("return ('a'):upper()", "\"A\"");
    check("return false", "nil");
    check("return math.random(1000000)", "396465");
}

#[test]
fn bytecode_is_refused() {
    assert_eq!(eval("return loadstring('return 1')()"), "1");
    assert_eq!(eval("return loadstring(string.dump(function() end))"), "nil");
    let (text, refused) = ("select(2, loadstring('\\27Lua'))", "bytecode is refused");
    assert!(eval(&format!("return {text}")).contains(refused));
    assert!(eval("return select(2, load(function() return nil end))").contains("nil"));
    let script = "local sent = false return select(2, load(function() \
        if sent then return nil end sent = true return '\\27Lua' end))";
    assert!(eval(script).contains(refused));
}

/// CVE-2024-31449: the number of digits was negated, which overflows for the smallest one.
#[test]
fn tohex_takes_any_number_of_digits() {
    assert_eq!(eval("return bit.tohex(255, -2147483648)"), "\"000000FF\"");
    assert_eq!(eval("return bit.tohex(255, 2147483647)"), "\"000000ff\"");
    assert_eq!(eval("return bit.tohex(65535, -2)"), "\"FF\"");
    assert_eq!(eval("return bit.tohex(1, 0)"), "\"\"");
}

/// CVE-2025-46817: the number of results overflowed.
#[test]
fn unpack_counts_without_overflow() {
    for range in [
        "0, 2147483647",
        "-2147483648, 0",
        "1, 1e9",
        "-1e18, 1e18",
        "2147483647, 2147483648",
        "'0', '2147483647'",
        "'-2147483648', 2147483647",
        "0/0, 2147482000",
        "'nan', 1",
        "-2147483648",
    ] {
        let error = error_of(&format!("return unpack({{}}, {range})"));
        assert!(error.ends_with("too many results to unpack"), "{range}: {error}");
    }
    assert_eq!(eval("return {unpack({1, 2, 3}, 2)}"), "[2 3]");
    assert_eq!(eval("return select('#', unpack({1, 2, 3}, -2147483648, -2147483646))"), "3");
    assert_eq!(eval("return select('#', unpack({}, '1', '2'))"), "2");
}

/// CVE-2025-46818: functions put among the methods of strings ran for other users.
#[test]
fn methods_of_strings_stay_as_they_are() {
    let script = "local meta = getmetatable('') \
        return {pcall(function() meta.__index = nil end), pcall(rawset, meta, '__index', 1)}";
    assert_eq!(eval(script), "[nil nil \"Attempt to modify a readonly table\"]");
}

/// CVE-2025-46819: the level of a long bracket overflowed.
#[test]
fn long_brackets_have_bounded_levels() {
    let level = |count| format!("return [{0}[a]{0}]", "=".repeat(count));
    assert_eq!(eval(&level(200)), "\"a\"");
    assert!(eval(&level(100_000)).starts_with("-ERR Error compiling script"));
    let script = "return select(2, loadstring('return [' .. ('='):rep(1e5) .. '[a'))";
    assert!(eval(script).contains("long bracket is too long"));
}

/// CVE-2025-49844: the collector freed the name of a chunk while it was parsed.
#[test]
fn compiling_while_the_collector_works_is_safe() {
    let script = "for round = 1, 2000 do \
        local name = '=' .. round .. ('n'):rep(1000) \
        loadstring('local a = \"' .. ('x'):rep(2000) .. round .. '\" return {', name) \
        collectgarbage('step', 100) end return 1";
    assert_eq!(eval(script), "1");
}

/// CVE-2024-46981: finalizers ran when the interpreter was closed.
#[test]
fn there_are_no_finalizers() {
    assert_eq!(
        eval("setmetatable({}, {__gc = function() error('x') end}) collectgarbage() return 1"),
        "1"
    );
}
