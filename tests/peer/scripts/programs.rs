//! Programs: statements, results, and first lines with flags.

use super::values::{number, of, raised, value};
use fastrand::Rng;

/// Shows Lua values: each field of a table, in an order that both servers share. `s` shows several
/// values, `o` a list whose order is undefined.
const SHOW: &str = "local function d(v, u)
  if type(v) == 'string' then return '\"' .. v .. '\"' end
  if type(v) ~= 'table' then return type(v) == 'number' and 'n' .. string.format('%.17g', v) or type(v) .. (type(v) == 'boolean' and tostring(v) or '') end
  local t = {}
  for k, w in pairs(v) do t[#t + 1] = (u and type(k) == 'number' and '' or d(k, u) .. '=') .. d(w, u) end
  table.sort(t)
  return '{' .. table.concat(t, ',') .. '}'
end
local function s(...) local t = {} for i = 1, select('#', ...) do t[i] = d((select(i, ...))) end return table.concat(t, ';') end
local function o(v) return d(v, true) end
";
/// Commands whose reply is in the order of a table.
const UNORDERED: &[&str] =
    &["hgetall", "hkeys", "hvals", "smembers", "sinter", "sunion", "sdiff", "sort", "sort_ro"];
/// First lines.
const SHEBANGS: &[&str] = &[
    "#!lua\n",
    "#!lua flags=no-writes\n",
    "#!lua flags=allow-oom\n",
    "#!lua flags=no-writes,allow-oom\n",
    "#!lua flags=allow-stale\n",
    "#!lua flags=no-cluster\n",
    "#!lua flags=allow-cross-slot-keys\n",
    "#!lua flags=\n",
    "#!lua flags=nothing\n",
    "#!lua flags=no-writes,\n",
    "#!lua flags=,no-writes\n",
    "#!lua flags=NO-WRITES\n",
    "#!lua flags=allow-oom flags=no-writes\n",
    "#!lua name=x\n",
    "#!python\n",
    "#!\n",
    "#!lua",
    "#!LUA\n",
    "#!lua \"flags=no-writes\"\n",
    "#!lua 'flags=no-writes\n",
    "#! lua\n",
    "#!lua  flags=no-writes \n",
];
/// Statements that call commands of each kind, or fail.
const STATEMENTS: &[&str] = &[
    "redis.call('SET', 'new', 'x')",
    "redis.call('INCR', 'a')",
    "redis.call('INCR', 'b')",
    "redis.pcall('INCR', 'b')",
    "redis.setresp(3)",
    "redis.setresp(2)",
    "redis.call('SELECT', '1')",
    "redis.call('SET', KEYS[1], ARGV[1])",
    "redis.call('RPUSH', 'l1', 1.5, -0, 2^53, 1/3, 1e100, 0)",
    "redis.call('DEL', 'a')",
    "redis.call('PUBLISH', 'c', 'm')",
    "redis.pcall('LPUSH', 'a', 'x')",
    "redis.call('ZADD', 'z1', 0.1 + 0.2, 'x')",
    "redis.call('HSET', 'h1', 'g', 3.0)",
    "redis.call('PFCOUNT', 'e')",
    "redis.call('SPUBLISH', 'c', 'm')",
    "x = 5",
    "local t = nil; t.x = 1",
    "error('mine')",
    "error({err = 'MY table'})",
    "error({err = 'MY table', code = 1})",
    "error(nil)",
    "error(5)",
    "error('mine', 0)",
    "assert(false, 'asserted')",
    "assert(nil)",
    "assert(false, {err = 'MY assertion'})",
    "undefined()",
    "undefined.x = 1",
    "local y = undefined",
    "math.huge = 1",
    "redis = nil",
    "redis.x = 1",
    "string.x = 1",
    "KEYS[1] = 'b'",
    "ARGV = nil",
    "goto x",
    "return",
    "local a <",
    "if x then",
    "redis.call('EXPIRE', 'a', 100000)",
    "redis.call('RENAME', 'b', 'd')",
    "redis.call('XADD', 'x1', '6-1', 'a', 'b')",
    "local r = redis.pcall('INCR', 'b'); if r.err then error(r) end",
    "local ok, e = pcall(redis.call, 'INCR', 'b'); if not ok then error(e) end",
    "local ok, e = pcall(redis.call, 'nothing'); if not ok then return s(e) end",
    "local e = redis.pcall('nothing'); return s(e)",
    "return redis.pcall('INCR', 'b')",
    "return redis.call('INCR', 'b')",
    "local ok, e = pcall(error, {err = 'MY caught'}); return s(e)",
    "return {redis.pcall('INCR', 'b'), 1}",
    "return s(redis.pcall('INCR', 'b'))",
    "return s(pcall(redis.call, 'INCR', 'b'))",
    "do local function f() return f() + 1 end end",
    "for i = 1, 3 do redis.call('RPUSH', 'l1', i) end",
    "setmetatable(_G, nil)",
    "_G.x = 1",
    "return s(xpcall(function() redis.call('INCR', 'b') end, function(e) return e end))",
    "redis.call('MULTI')",
    "redis.call('BLPOP', 'd', 0)",
    "redis.call('LPOS', 'l1', 'a', 'COUNT', 0)",
    "redis.setresp(3); return redis.call('HGETALL', 'h1')",
    "redis.setresp(3); return s(redis.call('ZSCORE', 'z1', 'b'))",
    "redis.setresp(3); return s(redis.call('ZRANGE', 'z1', 0, -1, 'WITHSCORES'))",
    "return s(redis.call('ZSCORE', 'z1', 'b'))",
    "redis.setresp(3); return s(redis.call('SMEMBERS', 't1'))",
    "redis.setresp(3); return s(redis.call('GET', 'nothing'))",
    "redis.setresp(3); return s(redis.call('HGETALL', 'h1'))",
    "redis.setresp(3); return redis.call('SMEMBERS', 't1')",
    "return s(redis.call('SET', 'd', 'x', 'GET'))",
    "return s(redis.call('HMGET', 'h1', 'f', 'nothing'))",
    "return s(redis.call('GEOPOS', 'g1', 'palermo', 'x'))",
    "redis.setresp(3); return redis.call('GEOPOS', 'g1', 'palermo', 'x')",
    "return s(redis.call('XRANGE', 'x1', '-', '+'))",
    "redis.setresp(3); return s(redis.call('XREAD', 'STREAMS', 'x1', 0))",
    "redis.setresp(3); return redis.call('ZSCORE', 'z1', 'b')",
    "return redis.call('ZSCORE', 'z1', 'b')",
    "return redis.call('COMMAND', 'INFO', 'get')",
    "return redis.call('ACL', 'WHOAMI')",
    "return s(redis.call('LCS', 'b', 'b', 'IDX'))",
    "redis.setresp(3); return redis.call('LCS', 'b', 'b', 'IDX')",
    "return s(redis.call('TYPE', 'a'))",
    "return redis.call('PING')",
    "return redis.call('ECHO', 'x')",
];

/// A program that shows, returns or drops the reply to the command in its arguments.
pub(super) fn call(name: &str, random: &mut Rng) -> String {
    let setresp = of(&["", "redis.setresp(3) ", "redis.setresp(2) "], random);
    let call = of(&["call", "pcall"], random);
    let show = if UNORDERED.contains(&name) { "o" } else { "s" };
    match random.u8(..4) {
        0 => format!("{setresp}return redis.{call}(unpack(ARGV))"),
        1 => format!("{setresp}return {{redis.{call}(unpack(ARGV)), 'end'}}"),
        _ => format!("{SHOW}{setresp}return {show}(redis.{call}(unpack(ARGV)))"),
    }
}

/// A first line, or none.
pub(super) fn shebang(random: &mut Rng) -> &'static str {
    if random.bool() { "" } else { of(SHEBANGS, random) }
}

/// A script. Its log lines have a tag.
pub(super) fn script(tag: &str, random: &mut Rng) -> String {
    let first = if random.u8(..4) == 0 { shebang(random) } else { "" };
    format!("{first}{}", body(tag, random))
}

/// Statements, and a result.
pub(super) fn body(tag: &str, random: &mut Rng) -> String {
    let mut text = SHOW.to_owned();
    if random.u8(..16) == 0 {
        // For itself alone, however it ends.
        text.push_str("redis.call('SELECT', '1')\n");
    }
    for _ in 0..random.usize(..3) {
        let statement = of(STATEMENTS, random);
        // `return` is allowed only at the end of a block.
        match statement.contains("return") {
            true => text.push_str(&format!("do {statement} end\n")),
            false => text.push_str(&format!("{statement}\n")),
        }
    }
    if random.u8(..6) == 0 {
        let level = of(
            &[
                "redis.LOG_DEBUG",
                "redis.LOG_VERBOSE",
                "redis.LOG_NOTICE",
                "redis.LOG_WARNING",
                "2.5",
                "3",
            ],
            random,
        );
        let more = of(&["", ", 'second'", ", 5, 'third'", ", 'x', nil, 'y'"], random);
        text.push_str(&format!("redis.log({level}, 'said by {tag}'{more})\n"));
    }
    if random.u8(..8) == 0 {
        text.push_str(&format!("do {} end\n", raised(random)));
    }
    let value = value(0, random);
    match random.u8(..8) {
        0 => text.push_str(&format!("return s({value})")),
        1 => text.push_str(&format!("redis.setresp(3) return {value}")),
        2 => text.push_str(&format!(
            "local ok, e = pcall(function() return {value} end) return s(ok, e)"
        )),
        3 => text
            .push_str(&format!("return redis.pcall('RPUSH', 'new', {value}, {})", number(random))),
        4 => text.push_str(&format!("return {{{value}, s({value})}}")),
        5 => text.push_str(&value),
        _ => text.push_str(&format!("return {value}")),
    }
    text
}
