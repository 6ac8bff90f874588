//! Patterns, compared with those of Lua's own library, and patterns that do not end.

use crate::support::{MEMORY, TestHost, eval_in};
use mlua::{Lua, Value};
use script::{Interpreter, Invocation, Reply};

/// Shows everything that a function returns, in both worlds.
const SHOW: &str = "
    local function show(...)
      local text = {}
      for i = 1, select('#', ...) do text[i] = tostring((select(i, ...))) end
      return table.concat(text, '|')
    end
    local s, p, r = ARGV[1], ARGV[2], ARGV[3]
    local all = {}
    local function try(f, ...)
      local message = show(pcall(f, ...))
      all[#all + 1] = string.gsub(message, '^false|user_script:%d+: ', 'false|')
    end
    try(string.find, s, p)
    try(string.find, s, p, -3)
    try(string.find, s, p, 3, true)
    try(string.match, s, p)
    try(string.match, s, p, 2)
    try(string.gsub, s, p, r)
    try(string.gsub, s, p, r, 2)
    try(function() return string.gsub(s, p, function(...) return show(...) end) end)
    try(function() return string.gsub(s, p, function() return false end, 3) end)
    try(function() return string.gsub(s, p, { a = 'x', b = 1, ab = false }) end)
    try(function()
      local found = {}
      for a, b in string.gmatch(s, p) do found[#found + 1] = show(a, b) end
      return table.concat(found, ',')
    end)
    return table.concat(all, '\\n')";

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    fn text(&mut self, parts: &[&str], most: usize) -> String {
        (0..self.below(most + 1)).map(|_| parts[self.below(parts.len())]).collect()
    }
}

const PARTS: &[&str] = &[
    "a", "b", ".", "%a", "%d", "%s", "%W", "%z", "%", "[ab]", "[^a]", "[%d-]", "[a-c]", "[]", "[",
    "]", "(", ")", "()", "*", "+", "-", "?", "^", "$", "%1", "%2", "%b()", "%bab", "%b", "%f[%a]",
    "%f", "%%", "%.", "(a*)", "(.-)", "\0", "é",
];
const SUBJECTS: &[&str] = &["a", "b", "ab", "(", ")", "1", " ", "-", ".", "%", "\0", "é", "aab"];
const REPLACEMENTS: &[&str] = &["x", "%0", "%1", "%2", "%", "%%", "\0"];

#[test]
fn patterns_match_as_in_lua() {
    let lua = Lua::new();
    let original = lua.load(SHOW).set_name("=user_script").into_function().expect("a function");
    let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
    let script = interpreter.load(SHOW.as_bytes()).expect("a script");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..5_000 {
        let subject = random.text(SUBJECTS, 12);
        let pattern = random.text(PARTS, 6);
        let replacement = random.text(REPLACEMENTS, 3);
        let arguments = [subject.as_bytes(), pattern.as_bytes(), replacement.as_bytes()];
        let strings = arguments.map(|text| lua.create_string(text).expect("a string"));
        lua.globals().set("ARGV", strings).expect("a global");
        let expected = match original.call::<Value>(()).expect("a result") {
            Value::String(text) => text.as_bytes().to_vec(),
            other => panic!("a string, not {other:?}"),
        };
        let invocation = Invocation { keys: &[], arguments: &arguments };
        let found = interpreter.run(&script, invocation, &mut TestHost::default());
        let Reply::Bulk(found) = found.reply else { panic!("a string, not {found:?}") };
        assert_eq!(
            found.escape_ascii().to_string().replace("\\n", "\n"),
            expected.escape_ascii().to_string().replace("\\n", "\n"),
            "{subject:?} {pattern:?} {replacement:?}"
        );
    }
}

#[test]
fn a_pattern_that_does_not_end_is_killed() {
    for script in [
        "return string.find(string.rep('a', 100000), '.-.-.-.-.-b')",
        "return string.match(string.rep('a', 100000), '(.-)(.-)(.-)(.-)b')",
        "return string.gsub(string.rep('a', 100000), '.-.-.-.-.-b', 'x')",
        "return string.gsub(string.rep('a', 100000), '.-.-.-.-.-b', function() end)",
        "for a in string.gmatch(string.rep('a', 100000), '.-.-.-.-.-b') do end",
        "while true do pcall(string.find, string.rep('a', 100000), '.-.-.-.-.-b') end",
    ] {
        let mut interpreter = Interpreter::new(MEMORY).expect("an interpreter");
        let mut host = TestHost { polls_left: Some(5), ..TestHost::default() };
        let reply = eval_in(&mut interpreter, script, &mut host);
        let expected = "-ERR Script killed by user with SCRIPT KILL...";
        assert!(reply.starts_with(expected), "{script}: {reply}");
        host.polls_left = None;
        assert_eq!(eval_in(&mut interpreter, "return 1", &mut host), "1", "after {script}");
    }
}
