//! Programs that cover small domains completely: each marker of MessagePack, each byte of JSON,
//! each letter of `struct` with each size, each shift, each number next to a power of two. Chance
//! decides which domains a case covers, and makes patterns, formats and texts from pieces.
//!
//! Integers of `struct` longer than eight bytes are not read: redis-server shifts by more bits than
//! C defines.

use super::edges::SHOW;
use super::values::of;
use crate::steps::{Act, Alike, CLIENT, Case, with};
use fastrand::Rng;

/// Shows bytes.
const HEX: &str = "local function x(s) return (string.gsub(s, '.', function(c) return
           string.format('%02x', string.byte(c)) end)) end
local function p(...) return s(pcall(...)) end
local function g(f, a, b, c, e) return p(function() local q, w, u, v = f(a, b, c, e) return q, w,
           u, v end) end
local near = {0, 1, -1, 0.5, -0.5}
local edge = {0, 1, -1, 127, 128, -128, -129, 255, 256, 2^31, -2^31, 2^32, 2^53, -2^53, 2^63,
           -2^63, 2^64, 1.5, -1.5, -2.5}
";

/// Each appends lines to `r`; `@` stands for random texts.
const SWEEPS: &[(&str, Pieces)] = &[
    (
        "for n = 0, 64 do local t = {} for _, b in ipairs(near) do
           t[#t + 1] = x(cmsgpack.pack(2^n + b, b - 2^n)) end
         r[#r + 1] = n .. ' ' .. table.concat(t, ' ') end",
        Pieces::NONE,
    ),
    (
        "for mark = 0, 255 do local t = {} for _, fill in ipairs({'\\0', '\\127', '\\128',
           '\\255a'}) do
           for _, n in ipairs({0, 1, 2, 4, 8, 9}) do
             t[#t + 1] = p(cmsgpack.unpack, string.char(mark) .. string.rep(fill, n)) end end
         r[#r + 1] = mark .. ' ' .. d(table.concat(t, ' '), 0) end",
        Pieces::NONE,
    ),
    (
        "local text = cmsgpack.pack(1, 'two', {3}, false)
         for limit = -1, 6 do for offset = -1, #text + 1 do
           r[#r + 1] = limit .. ' ' .. offset .. p(cmsgpack.unpack_limit, text, limit, offset) end
             end
         for offset = -1, #text + 1 do r[#r + 1] = offset .. p(cmsgpack.unpack_one, text, offset)
           end",
        Pieces::NONE,
    ),
    (
        "for n = 0, 34 do r[#r + 1] = n .. ' ' .. x(cmsgpack.pack(string.rep('y', n), l(n))) .. ' '
           .. #cmsgpack.pack(m(n)) end
         for _, v in ipairs({{1, 2, nil, 4}, {[1] = 1, [3] = 3}, {[2] = 2}, {[1.5] = 1}, {[0] = 1},
           {[-1] = 1}, {[2^53] = 1}, {{}, {{}}}, {true, false}}) do r[#r + 1] = x(cmsgpack.pack(v))
             end
         for depth = 14, 19 do r[#r + 1] = x(cmsgpack.pack(n(depth), {a = n(depth)})) end",
        Pieces::NONE,
    ),
    (
        "for letter in string.gmatch('bBhHlLTfdiI', '%a') do for _, size in
           ipairs(string.lower(letter) == 'i' and {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 32, 33} or {0})
             do
           local f, t = letter .. (size > 0 and size or ''), {}
           for _, v in ipairs(edge) do for _, order in ipairs({'<', '>'}) do
             local ok, text = pcall(struct.pack, order .. f, v)
             t[#t + 1] = ok and x(text) .. '=' .. (size > 8 and '' or p(struct.unpack, order .. f,
               text)) or text end end
           r[#r + 1] = f .. ' ' .. d(table.concat(t, ' '), 0) end end",
        Pieces::NONE,
    ),
    (
        "for _, f in ipairs({@}) do local text = p(struct.pack, f, 1, 2, 3, 4, 5, 6)
           r[#r + 1] = f .. ' ' .. p(struct.size, f) .. ' ' .. x(text) .. p(struct.pack, f, 'abc',
             'de', 3, 'f', 5)
           for at = -1, 10 do r[#r + 1] = p(struct.unpack, f, string.rep('\\0\\1\\255\\128abc', 9),
             at) end end",
        Pieces { all: FORMATS, most: 4, texts: 6 },
    ),
    (
        "for ratio = 0, 3 do for safe = 0, 12, 3 do j.encode_sparse_array(false, ratio, safe) local
           t = {}
         for dense = 0, 5 do for largest = dense + 1, 20 do
           local v = l(dense) v[largest] = 1
           local ok, text = pcall(j.encode, v)
           t[#t + 1] = ok and string.sub(text, 1, 1) or 'e' end end
         r[#r + 1] = ratio .. ' ' .. safe .. ' ' .. table.concat(t) end end",
        Pieces::NONE,
    ),
    (
        "for c = 0, 255 do local b = string.char(c) local t = {p(cjson.encode, 'a' .. b .. 'b')}
           for _, text in ipairs({b, '\"' .. b .. '\"', '\"\\\\' .. b .. '\"', '[1' .. b .. '2]', b
             .. '1', '1' .. b, '{\"a\"' .. b .. '1}'}) do t[#t + 1] = p(cjson.decode, text) end
         r[#r + 1] = c .. ' ' .. d(table.concat(t, ' '), 0) end",
        Pieces::NONE,
    ),
    (
        "for _, text in ipairs({@}) do
         for at = 1, #text + 1 do local t = {} for _, by in ipairs({'', '{', '}', '[', ']', ',',
           ':', '\"', '1', 't', '\\\\', ' ', '\\0'}) do
           t[#t + 1] = p(cjson.decode, string.sub(text, 1, at - 1) .. by .. string.sub(text, at +
             1))
           t[#t + 1] = p(cjson.decode, string.sub(text, 1, at - 1) .. by .. string.sub(text, at))
             end
         r[#r + 1] = at .. ' ' .. d(table.concat(t, ' '), 0) end end",
        Pieces { all: DOCUMENTS, most: 2, texts: 1 },
    ),
    (
        "for _, text in ipairs({@}) do for _, how in ipairs({'on', 'off'}) do
           j.decode_invalid_numbers(how)
           r[#r + 1] = text .. ' ' .. p(j.decode, text) .. p(j.decode, '[' .. text .. ']') end end
         for digits = 1, 14 do j.encode_number_precision(digits) local t = {}
           for _, v in ipairs({1/3, 12345678.9, 0.1, 2^53, 1e15, 1e14, 123456.5, 1e-5, 0.0001,
             -0.5, 99999.95}) do t[#t + 1] = j.encode({v}) end
           r[#r + 1] = table.concat(t, ' ') end
         for depth = 1, 5 do for most = 1, 5 do j.encode_max_depth(most) j.decode_max_depth(most)
           r[#r + 1] = p(j.encode, n(depth)) .. p(j.decode, string.rep('[', depth) ..
             string.rep(']', depth)) .. p(j.encode, {a = n(depth)}) end end",
        Pieces { all: DIGITS, most: 5, texts: 20 },
    ),
    (
        "for _, f in ipairs({@}) do for _, v in ipairs({'', 'a', 'abc', 'a-b', '[a]', 'aaab',
           'x1 y2', ']-^'}) do
           local t = {g(string.find, v, f), g(string.match, v, f, 2), g(string.gsub, v, f, '<%0>'),
             g(string.gsub, v, f, {a = 1, b = 'B'}, 2), p(string.gsub, v, f, '')}
           t[#t + 1] = p(function() local all = {} for a, b in string.gmatch(v, f) do all[#all + 1]
             = tostring(a) .. tostring(b) end return table.concat(all, '|') end)
           r[#r + 1] = f .. ' ' .. table.concat(t, ' ') end end",
        Pieces { all: PATTERNS, most: 6, texts: 24 },
    ),
    (
        "for _, f in ipairs({'lshift', 'rshift', 'arshift', 'rol', 'ror', 'tohex'}) do for by = -9,
           41 do local t = {}
           for _, v in ipairs(edge) do t[#t + 1] = p(bit[f], v, by) end
           r[#r + 1] = f .. by .. ' ' .. d(table.concat(t, ' '), 0) end end
         for _, f in ipairs({'tobit', 'bnot', 'bswap', 'band', 'bor', 'bxor'}) do for _, v in
           ipairs(edge) do local t = {}
           for _, w in ipairs(edge) do t[#t + 1] = p(bit[f], v, w) .. p(bit[f], w, v, -2) end
           r[#r + 1] = f .. v .. ' ' .. d(table.concat(t, ' '), 0) end end",
        Pieces::NONE,
    ),
    (
        "for n = 0, 66 do for _, b in ipairs(near) do for _, sign in ipairs({1, -1}) do local v =
           sign * 2^n + b
           r[#r + 1] = v r[#r + 1] = redis.call('ECHO', v) r[#r + 1] = redis.call('ECHO', v / 3)
             r[#r + 1] = tostring(v / 7) end end end",
        Pieces::NONE,
    ),
];

/// Texts made of pieces.
struct Pieces {
    all: &'static [&'static str],
    /// The maximum number of pieces of a text.
    most: usize,
    texts: usize,
}

impl Pieces {
    const NONE: Pieces = Pieces { all: &[], most: 0, texts: 0 };

    /// Returns the texts as items of a Lua list.
    fn list(&self, random: &mut Rng) -> String {
        let text = |random: &mut Rng| -> String {
            (0..random.usize(1..=self.most)).map(|_| of(self.all, random)).collect()
        };
        (0..self.texts).map(|_| format!("[==[{}]==], ", text(random))).collect()
    }
}

const FORMATS: &[&str] = &[
    "b", "H", "l", "i", "i3", "I5", "I8", "d", "f", "s", "c0", "c2", "Bc0", "x", "<", ">", "!",
    "!2", "!4", "!3", " ", "T", "i2", "I7", "i33",
];
const DOCUMENTS: &[&str] = &[
    "[1,2.5,\"a\"]",
    "{\"a\":{\"b\":[]}}",
    " [ true , null ] ",
    "\"\\u00e4\\ud834\\udd1e\"",
    "{\"a\":1,\"b\":[false]}",
    "-12.5e3",
    "[[],{},\"\\n\"]",
];
const DIGITS: &[&str] =
    &["-", "+", "0", "1", "12", ".", "e", "E", "e5", "x", "inf", "nan", " ", "0x", "a", "9"];
const PATTERNS: &[&str] = &[
    "a", "b", ".", "%a", "%d", "%w", "%s", "%p", "%W", "%-", "[a-c]", "[^a]", "[a-]", "[]a]",
    "[%w-]", "[^%s]", "*", "+", "-", "?", "(", ")", "()", "%1", "^", "$", "%b[]", "%f[%a]", "[",
    "]", "%", "-", "x", "[-b]", "[b-a]", "%2",
];

/// Adds some of them.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    for _ in 0..3 {
        let (sweep, pieces) = &SWEEPS[random.usize(..SWEEPS.len())];
        let sweep = sweep.replace('@', &pieces.list(random));
        let program = format!("{SHOW}{HEX}{sweep}\nreturn r");
        case.add(CLIENT, Act::Call(with("EVAL", &[program.as_bytes(), b"0"])), Alike::Same);
    }
}
