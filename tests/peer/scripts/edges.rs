//! Programs of many short, independent expressions about Lua's libraries: sizes around each of
//! their constants, settings, and any number of operands.

use super::values::{number, of};
use crate::steps::{Act, Alike, CLIENT, Case, with};
use fastrand::Rng;

/// Shows results; a long string by its beginning and its digest.
pub(super) const SHOW: &str = "local function d(v, n)
  if type(v) == 'string' then return #v > 60 and string.sub(v, 1, 8) .. #v .. redis.sha1hex(v) or v end
  if type(v) == 'number' then return string.format('%.17g', v) end
  if type(v) ~= 'table' or n > 20 then return type(v) .. (type(v) == 'boolean' and tostring(v) or '') end
  local t = {}
  for k, w in pairs(v) do t[#t + 1] = d(k, n + 1) .. '=' .. d(w, n + 1) end
  table.sort(t)
  local s = table.concat(t, ',')
  return '{' .. (#s > 200 and #t .. redis.sha1hex(s) or s) .. '}'
end
local function s(...) local t = {} for i = 1, select('#', ...) do t[i] = d((select(i, ...)), 0) end return table.concat(t, ';') end
local function l(n) local t = {} for i = 1, n do t[i] = i end return t end
local function m(n) local t = {} for i = 1, n do t['k' .. i] = i end return t end
local function n(d) local t = {1} for i = 2, d do t = {t} end return t end
local function head(p, n) return {string.byte(p, 1, n)} end
local j = cjson.new()
local r = {}
";
const SIZES: &[usize] = &[
    0, 1, 2, 14, 15, 16, 17, 30, 31, 32, 33, 127, 128, 254, 255, 256, 257, 65534, 65535, 65536,
    65537,
];
const COUNTS: &[&str] = &[
    "0", "1", "2", "7", "8", "9", "15", "16", "31", "32", "33", "63", "64", "-1", "-8", "-9", "-32",
];
const FRACTIONS: &[&str] = &["0.5", "1.5", "2.5", "-0.5", "-1.5", "0.7", "-0.7", "1.2", "2.9999"];
const TOKENS: &[&str] = &[
    "b", "B", "h", "H", "l", "L", "i", "I", "i1", "i2", "i3", "I4", "i7", "i8", "I8", "T", "f",
    "d", "s", "x", "c1", "c3", "c5", "<", ">", "!", "!1", "!2", "!4", "!8", "!16", " ", "!3", "bh",
    "bc3",
];
/// Letters of subjects, and classes of patterns.
const LETTERS: &[&str] = &["a", "a", "b", "A", "1", " ", "(", ")", "[", "]", "-", "_", "\\n", "z"];
const CLASSES: &[&str] = &[
    "a", "a", "b", ".", "%a", "%d", "%w", "%s", "%p", "%l", "%u", "%x", "%c", "%A", "%S", "%.",
    "[ab]", "[^a]", "[a-z]", "[a-]", "[-a]", "[%w_]", "[]]", "[^]a]", "[%]b]", "[b-a]", "[a%-z]",
];
const PIECES: &[&str] = &["-", "\\r", "\\n", " ", "A", "my text", "ERR", "MY x", "\\0", "--"];

/// Adds programs, and compares the result of each of their expressions.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    {
        let mut program = SHOW.to_owned();
        for _ in 0..24 {
            let one = expression(random);
            program.push_str(&format!("r[#r + 1] = s(pcall(function() {one} end))\n"));
        }
        program.push_str("return r");
        case.add(CLIENT, Act::Call(with("EVAL", &[program.as_bytes(), b"0"])), Alike::Same);
    }
    for _ in 0..8 {
        let how = ["return *", "return *", "error(*)", "return {map = {a = *}}", "return {1, {*}}"];
        let (how, reply) = (of(&how, random).to_owned(), reply(random));
        // redis-server ends by a signal if the table that is raised has no text of an error.
        let how = if reply.contains("err") { how } else { how.replace("error(*)", "return *") };
        let program = how.replace('*', &reply);
        case.add(CLIENT, Act::Call(with("EVAL", &[program.as_bytes(), b"0"])), Alike::Same);
    }
    let depth = [1, 899, 901, 950][random.usize(..4)];
    let program = format!("local t = {{}} for i = 1, {depth} do t = {{t}} end return t");
    case.add(CLIENT, Act::Call(with("EVAL", &[program.as_bytes(), b"0"])), Alike::Same);
}

fn reply(random: &mut Rng) -> String {
    let text: String = (0..random.usize(..6)).map(|_| of(PIECES, random)).collect();
    let how = of(
        &["redis.error_reply('*')", "redis.status_reply('*')", "({err = '*'})", "({ok = '*'})"],
        random,
    );
    how.replace('*', &text)
}

fn operand(random: &mut Rng) -> &'static str {
    match random.u8(..3) {
        0 => of(FRACTIONS, random),
        _ => number(random),
    }
}

fn expression(random: &mut Rng) -> String {
    match random.u8(..20) {
        16.. => matched(random),
        0..4 => packed(random),
        4 => {
            let shift = of(&["lshift", "rshift", "arshift", "rol", "ror"], random);
            format!("return bit.{shift}({}, {})", operand(random), of(COUNTS, random))
        }
        5 => {
            let fold = of(&["band", "bor", "bxor"], random);
            let all: Vec<&str> = (0..random.usize(1..5)).map(|_| operand(random)).collect();
            format!("return bit.{fold}({})", all.join(", "))
        }
        6 => format!("return bit.tohex({}, {})", operand(random), of(COUNTS, random)),
        7 => format!("return bit.{}({})", of(&["tobit", "bnot", "bswap"], random), operand(random)),
        8..11 => structure(random),
        11..14 => json(random),
        14 => format!("return {}", reply(random)),
        _ => {
            let range = of(
                &["", "1", "10", "3, 7", "0, 1", "-5, 5", "7, 3", "0", "1, 2, 3", "1, 1000000"],
                random,
            );
            let seed = of(&["0", "1", "42", "65536", "70000", "-1", "1.5", "2^31"], random);
            format!("math.randomseed({seed}) return math.random({range}), math.random()")
        }
    }
}

/// A use of a sound pattern: each item, quantifier, set and capture in each place.
fn matched(random: &mut Rng) -> String {
    let subject: String = (0..random.usize(..9)).map(|_| of(LETTERS, random)).collect();
    let pattern = format!("{}{}", of(&["", "", "^"], random), pattern(0, random));
    match random.u8(..5) {
        0 => format!("return string.find('{subject}', '{pattern}', {})", of(COUNTS, random)),
        1 => format!("return string.match('{subject}', '{pattern}')"),
        2 => format!("return string.gsub('{subject}', '{pattern}', '<%0%1>')"),
        3 => format!("return string.gsub('{subject}', '{pattern}', '<%0>', {})", random.u8(..3)),
        _ => format!(
            "local t = {{}} for a, b in string.gmatch('{subject}', '{pattern}') do \
             t[#t + 1] = tostring(a) .. tostring(b) end return t"
        ),
    }
}

fn pattern(depth: usize, random: &mut Rng) -> String {
    let item = |random: &mut Rng| match random.u8(..12) {
        0 if depth < 2 => format!("({})", pattern(depth + 1, random)),
        1 if depth < 2 => format!("({})", of(&["", "a*", "[ab]-", ".", "b$"], random)),
        2 => of(&["%f[%w]", "%f[%a]", "%f[%z]", "%b()", "%bab", "%b[]"], random).to_owned(),
        3 => of(&["%1", "%2", "$", "%$"], random).to_owned(),
        _ => format!("{}{}", of(CLASSES, random), of(&["", "", "*", "+", "-", "?"], random)),
    };
    (0..random.usize(1..5)).map(|_| item(random)).collect()
}

fn packed(random: &mut Rng) -> String {
    let size = SIZES[random.usize(..SIZES.len())];
    match random.u8(..8) {
        0..2 => format!("return cmsgpack.pack(string.rep('x', {size}))"),
        2 => {
            format!("local p = cmsgpack.pack(l({size})) return #p, head(p, 5), cmsgpack.unpack(p)")
        }
        3 => {
            format!("local p = cmsgpack.pack(m({size})) return #p, head(p, 5), cmsgpack.unpack(p)")
        }
        4 => format!("return cmsgpack.pack(n({}))", random.usize(13..20)),
        5 => {
            let power = random.usize(..54);
            let (sign, by) = (of(&["", "-"], random), of(&["0", "1", "-1", "0.5"], random));
            format!("return cmsgpack.pack({sign}(2^{power}) + {by})")
        }
        6 => format!(
            "return cmsgpack.unpack_limit(cmsgpack.pack(1, 'two', 3), {}, {})",
            random.usize(..5),
            random.usize(..7)
        ),
        _ => {
            format!("return cmsgpack.unpack_one(cmsgpack.pack(1, 'two', 3), {})", random.usize(..8))
        }
    }
}

fn structure(random: &mut Rng) -> String {
    let format: String = (0..random.usize(1..5)).map(|_| of(TOKENS, random)).collect();
    let values: Vec<&str> = format
        .chars()
        .filter(|letter| letter.is_ascii_alphabetic() && *letter != 'x')
        .map(|letter| match letter {
            's' | 'c' => of(&["'hello'", "'abcdefgh'"], random),
            _ => of(&["1", "-1", "255", "-129", "65536", "2^31", "1.5", "2^40"], random),
        })
        .collect();
    let list = values.iter().map(|value| format!(", {value}")).collect::<String>();
    match random.u8(..4) {
        0 => format!(
            "return struct.size('{}')",
            of(
                &[
                    "i31", "i32", "i33", "bi32", "!8bd", "!bd", "!hl", "!4bd", "bc3h", "!4bc3h",
                    "!c5i"
                ],
                random
            )
        ),
        1 => format!("return struct.pack('{format}'{list})"),
        2 => format!("return struct.unpack('{format}', struct.pack('{format}'{list}))"),
        _ => format!(
            "return struct.unpack('{format}', 'xy' .. struct.pack('{format}'{list}) .. 'z', {})",
            of(&["1", "2", "3", "4"], random)
        ),
    }
}

fn json(random: &mut Rng) -> String {
    match random.u8(..9) {
        0 => format!("return cjson.encode('a' .. string.char({}) .. 'b')", random.u8(..)),
        1 => format!("return cjson.encode({{[{}] = 1}})", random.usize(1..25)),
        2 => format!("return cjson.encode({{1, 2, 3, 4, [{}] = 1}})", random.usize(5..14)),
        3 => {
            let code =
                of(&["d7ff", "d800", "dbff", "dc00", "dfff", "e000", "0041", "00e9"], random);
            let second = of(&["", "\\\\udc00", "\\\\udfff", "\\\\ud800", "\\\\u0041", "x"], random);
            format!("return cjson.decode('\"\\\\u{code}{second}\"')")
        }
        4 => format!(
            "j.encode_max_depth({}) return j.encode(n({}))",
            random.usize(1..4),
            random.usize(1..5)
        ),
        5 => format!(
            "j.decode_max_depth({}) return j.decode('{}')",
            random.usize(1..4),
            of(&["[1]", "[[1]]", "[[[1]]]", "{\"a\":[{}]}"], random)
        ),
        6 => format!(
            "j.encode_invalid_numbers('{}') return j.encode({{{}}})",
            of(&["on", "off", "null"], random),
            of(&["1/0", "-1/0", "1"], random)
        ),
        7 => format!(
            "j.encode_number_precision({}) return j.encode({{{}}})",
            random.usize(1..15),
            of(&["1/3", "12345678.9", "0.1", "2^53"], random)
        ),
        _ => format!(
            "j.encode_sparse_array({}, {}, {}) return j.encode({{[{}] = 1}})",
            of(&["true", "false"], random),
            random.usize(..4),
            random.usize(..12),
            random.usize(1..14)
        ),
    }
}
