//! Lua expressions: values of each type, and results of the libraries.

use fastrand::Rng;

/// Numbers at the limits of integers and of their text forms.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "127",
    "128",
    "255",
    "256",
    "-32",
    "-33",
    "-128",
    "-129",
    "65535",
    "65536",
    "2^31",
    "2^31-1",
    "-2^31",
    "2^32",
    "2^53",
    "2^53+1",
    "2^63",
    "-2^63",
    "1e15",
    "1e300",
    "0.1",
    "1.5",
    "-1.5",
    "2.9999",
    "-0.5",
    "0/0",
    "1/0",
    "-1/0",
    "1e100",
    "123456789012345",
    "1/3",
    "-0",
    "-(0)",
    "3.0",
    "1e14",
    "0.1+0.2",
    "100",
    "-7.25",
];
const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'hello'",
    "'10'",
    "'\\0\\255\\r\\n'",
    "'a\\r\\nb'",
    "'3.25'",
    "'%d'",
    "'-1'",
    "'\u{e4}'",
    "'OK'",
    "'ERR x'",
    "'inf'",
    "'0x10'",
    "' 5 '",
    "'a\\0b'",
    "'\"\\\\/'",
    "'\\127\\1'",
];
const LENGTHS: &[u32] = &[
    15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 257, 511, 512, 513, 4095, 4096, 65535, 65536, 300_000,
];
/// Texts of JSON, valid and invalid.
const JSON: &[&str] = &[
    "[1,2.5,\"a\",null,true]",
    "{\"a\":{\"b\":[]}}",
    "[]",
    "{}",
    "[1,",
    "nul",
    "\"\\u00e4\\ud834\\udd1e\"",
    "\"\\ud834\"",
    "1e3",
    "-0",
    "0x10",
    "[[[[1]]]]",
    "{\"a\":1,}",
    "  1 ",
    "",
    "\"\\x\"",
    "inf",
    "[1 2]",
    "{\"1\":2}",
    "{a:1}",
    "12345678901234567890",
    "\"a\nb\"",
    "-",
    "01",
    "+1",
    "[true,false]",
];
const FORMATS: &[&str] = &[
    "bBhH", "lL", "i3I2", ">i4", "<i4", "!4bi", "s", "c0", "Bc0", "c5", "f", "d", "xb", "T", ">d",
    "!i", "i33", "q", "!3i", "", "bxxb", ">I8", "!8bd", "bT",
];
const OPERATIONS: &[&str] = &["band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror"];
/// Functions of Lua's own libraries.
const LUA: &[&str] = &[
    "string.format('%5.2f|%d|%s|%q|%x|%g', 3.14159, 42, 'x', 'a\"b', 255, 1e20)",
    "string.format('%s', nil)",
    "string.format('%d', '10')",
    "string.format('%d', 'x')",
    "string.rep('ab', 3)",
    "string.sub('hello', -3, -2)",
    "string.byte('abc', 1, -1)",
    "string.find('hello', 'l+')",
    "string.gsub('hello', 'l', 'L', 1)",
    "string.match('k=v', '(%w)=(%w)')",
    "string.gsub('abc', '%w', '%0%0')",
    "string.reverse('abc')",
    "string.len('a\\0b')",
    "string.char(0, 255, 65)",
    "string.char(256)",
    "string.find('a.b', '.', 1, true)",
    "string.gsub('abc', '', '-')",
    "string.match('  x ', '^%s*(.-)%s*$')",
    "string.find('a', '[')",
    "table.concat({1, 2, 3}, ',')",
    "table.concat({1, {}, 3})",
    "#{1, 2, nil, 4}",
    "unpack({1, 2, 3})",
    "select('#', nil, nil)",
    "select(-1, 1, 2)",
    "select(0)",
    "tonumber('0x1F')",
    "tonumber('z', 36)",
    "tonumber('')",
    "tonumber('8', 8)",
    "tostring(nil)",
    "tostring(1e15)",
    "tostring(2^63)",
    "type(nil)",
    "math.floor(-1.5)",
    "math.max(1, 5, 3)",
    "math.fmod(-5, 3)",
    "-5 % 3",
    "math.huge",
    "10 == '10'",
    "'10' + 5",
    "'a' .. 1",
    "1 .. 2",
    "'a' < 'b'",
    "not nil",
    "next({})",
    "rawequal('a', 'a')",
    "pcall(error, 'x')",
    "pcall(error, {code = 5})",
    "pcall(error)",
    "os.clock() >= 0",
    "os.time",
    "loadstring('return 5')()",
    "loadstring('return +')",
    "getmetatable('').__index == string",
    "setmetatable({}, {__index = function(_, k) return k .. '!' end}).key",
    "print",
    "_G",
    "dofile",
    "math.random(1, 1)",
    "string.dump",
    "coroutine.wrap(function() coroutine.yield(7) end)()",
    "bit.lol",
    "_VERSION",
    "#'\\0\\0'",
    "({1, 2, 3})[2]",
    "tostring(true)",
    "redis.REDIS_VERSION_NUM",
    "redis.LOG_WARNING",
    "redis.REPL_ALL",
    "redis.REDIS_VERSION",
    "struct.size('i4b')",
    "cjson.null == nil",
    "xpcall(error, function(e) return 'h' end)",
];
/// Functions of the table `redis`.
const REDIS: &[&str] = &[
    "redis.sha1hex('')",
    "redis.sha1hex('abc')",
    "redis.sha1hex()",
    "redis.sha1hex(1, 2)",
    "redis.sha1hex(5)",
    "redis.sha1hex(nil)",
    "redis.setresp(4)",
    "redis.setresp()",
    "redis.setresp('3')",
    "redis.set_repl(4)",
    "redis.set_repl(3)",
    "redis.set_repl()",
    "redis.replicate_commands()",
    "redis.breakpoint()",
    "redis.debug('x')",
    "redis.acl_check_cmd('get', 'a')",
    "redis.acl_check_cmd('nothing')",
    "redis.acl_check_cmd()",
    "redis.acl_check_cmd({})",
    "redis.log()",
    "redis.log(9, 'x')",
    "redis.log('x', 'y')",
    "redis.register_function('f', function() end)",
    "redis.call()",
    "redis.pcall()",
    "redis.pcall({})",
    "redis.pcall('nothing')",
    "redis.pcall('get')",
    "redis.pcall('get', true)",
    "redis.pcall('subscribe', 'a')",
    "redis.call('nothing')",
    "redis.call('get', {})",
    "redis.call('eval', 'return 1', '0')",
    "redis.pcall('multi')",
    "redis.nothing",
    "redis.nothing()",
    "redis.REPL_NONE",
    "redis.error_reply()",
    "redis.error_reply({})",
    "redis.status_reply()",
    "redis.status_reply(5)",
    "redis.error_reply(5)",
    "redis.status_reply('a', 'b')",
];
/// Texts of errors and of statuses.
const REPLIES: &[&str] = &[
    "'x'",
    "'-x'",
    "'My own error'",
    "'-MY error'",
    "'MY error\\r\\n'",
    "'\\r\\nMY \\r\\nerror\\n'",
    "''",
    "'-'",
    "'a\\r\\nb'",
    "'a\\0b c'",
    "' x'",
    "'--x y'",
    "'ERR x'",
    "'MY  two'",
    "'a '",
    "'\u{e4} x'",
];

pub(super) fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

pub(super) fn number(random: &mut Rng) -> &'static str {
    of(NUMBERS, random)
}

fn string(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => format!("string.rep('x', {})", LENGTHS[random.usize(..LENGTHS.len())]),
        1 => "KEYS[1]".into(),
        2 => "ARGV[1]".into(),
        _ => of(STRINGS, random).into(),
    }
}

/// Makes an expression that a program returns, or that is part of one.
pub(super) fn value(depth: usize, random: &mut Rng) -> String {
    let kinds = if depth > 3 { 10 } else { 32 };
    match random.u8(..kinds) {
        0 => "nil".into(),
        1 => "true".into(),
        2 => "false".into(),
        3..6 => number(random).into(),
        6..9 => string(random),
        9 => of(REDIS, random).into(),
        10..14 => list(depth, random),
        14 => format!("{{ok = {}}}", of(REPLIES, random)),
        15 => format!("{{err = {}}}", of(REPLIES, random)),
        16 => format!("{{double = {}}}", number(random)),
        17 => format!("{{map = {{[{}] = {}}}}}", key(random), value(depth + 1, random)),
        18 => format!("{{set = {{[{}] = {}}}}}", key(random), of(&["true", "false", "1"], random)),
        19 => format!(
            "{{big_number = {}}}",
            of(&["'123456789012345678901234567890'", "'1\\r\\n2'", "5", "''"], random)
        ),
        20 => {
            let format = of(&["'txt'", "'mkd'", "'t'", "''", "'long'", "1", "nil"], random);
            format!("{{verbatim_string = {{format = {format}, string = {}}}}}", string(random))
        }
        21 => format!("redis.error_reply({})", of(REPLIES, random)),
        22 => format!("redis.status_reply({})", of(REPLIES, random)),
        23 => format!("{{ok = {}, err = {}, double = 1}}", value(4, random), value(4, random)),
        24..27 => of(LUA, random).into(),
        27..31 => library(depth, random),
        _ => "function() end".into(),
    }
}

/// Makes a statement that ends a program by an error with any text.
pub(super) fn raised(random: &mut Rng) -> String {
    let text = if random.bool() { of(REPLIES, random).to_owned() } else { string(random) };
    // INFO has no control characters in the names of errors here.
    let text = text.replace("\\127\\1", "x");
    match random.u8(..6) {
        0 => format!("error({text})"),
        1 => format!("error({text}, {})", of(&["0", "1", "2"], random)),
        2 => format!("assert(false, {text})"),
        // redis-server ends by a signal if there is no text.
        3 => format!("error({{err = {text} or 'none'}})"),
        4 => format!("error(redis.error_reply({text}))"),
        _ => format!("redis.call({text})"),
    }
}

fn key(random: &mut Rng) -> String {
    match random.u8(..3) {
        0 => of(&["1", "2", "1.5", "-1", "2^53"], random).into(),
        1 => of(&["true", "false"], random).into(),
        _ => of(STRINGS, random).into(),
    }
}

fn list(depth: usize, random: &mut Rng) -> String {
    let items = match random.u8(..16) {
        0 => (0..[15, 16, 17][random.usize(..3)]).map(|_| number(random).to_owned()).collect(),
        _ => (0..random.usize(..5)).map(|_| value(depth + 1, random)).collect::<Vec<String>>(),
    };
    format!("{{{}}}", items.join(", "))
}

/// Makes a call of cjson, cmsgpack, struct or bit.
fn library(depth: usize, random: &mut Rng) -> String {
    match random.u8(..16) {
        0..2 => format!("cjson.encode({})", value(depth + 1, random)),
        2 => format!(
            "s(cjson.decode('{}'))",
            of(JSON, random).replace('\\', "\\\\").replace('\n', "\\n")
        ),
        3 => format!("s(cjson.decode(cjson.encode({})))", value(depth + 1, random)),
        4 => {
            let depth = [1, 999, 1000, 1001, 3][random.usize(..5)];
            format!("type(cjson.decode(string.rep('[', {depth}) .. string.rep(']', {depth})))")
        }
        5..8 => format!("cmsgpack.pack({})", value(depth + 1, random)),
        8 => format!("s(cmsgpack.unpack(cmsgpack.pack({})))", value(depth + 1, random)),
        9 => format!("s(cmsgpack.unpack({}))", of(STRINGS, random)),
        10..13 => structs(random),
        13 => format!(
            "bit.tohex({}, {})",
            number(random),
            of(&["8", "-8", "4", "-4", "0", "-100", "nil"], random)
        ),
        14 => format!("bit.{}({})", of(&["tobit", "bnot", "bswap"], random), number(random)),
        _ => format!("bit.{}({}, {})", of(OPERATIONS, random), number(random), number(random)),
    }
}

fn structs(random: &mut Rng) -> String {
    let format = of(FORMATS, random);
    match random.u8(..4) {
        // Redis takes a letter that is no format for nothing, as compatibility.md says.
        0 => format!("struct.size('{}')", format.replace('q', "")),
        1 => format!("s(struct.unpack('{format}', {}))", string(random)),
        _ => {
            let given: Vec<String> = format
                .chars()
                .filter(|letter| letter.is_ascii_alphabetic() && *letter != 'x')
                .map(|letter| match letter {
                    's' | 'c' => string(random),
                    _ => number(random).to_owned(),
                })
                .collect();
            let given = given.join(", ");
            let pack = format!(
                "struct.pack('{format}'{}{given})",
                if given.is_empty() { "" } else { ", " }
            );
            if random.bool() { pack } else { format!("s(struct.unpack('{format}', {pack}))") }
        }
    }
}
