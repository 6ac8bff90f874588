//! Random requests made from the command table: the documented arguments of a command are its
//! grammar.
//!
//! Most requests are well formed, with edge values of each kind; in some a word is dropped, doubled
//! or replaced, so that errors and their order are compared too.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part")]

use commands::spec::{Arg, ArgKind, CommandSpec, Group};
use fastrand::Rng;

const KEYS: &[&str] = &["a", "b", "c", "{a}1", "{a}2", "key:with:colons", "", "d\u{e4}", "e"];
const HASHES: &[&str] = &["h1", "h2", "{a}h"];
const SETS: &[&str] = &["t1", "t2", "{a}t"];
const LISTS: &[&str] = &["l1", "l2", "{a}l"];
const SORTED_SETS: &[&str] = &["z1", "z2", "{a}z"];
/// Scores, weights and bounds of ranges.
const SCORES: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3.25",
    "-0.5",
    "1e5",
    "inf",
    "-inf",
    "7",
    "7",
    "100",
    "0.1",
    "-0",
    "12345678901234567",
    "1e300",
    "5e-324",
    "nan",
    "abc",
    "",
    "1e400",
    "0x10",
    " 1",
];
/// Bounds of ranges of scores, of names and of ranks.
const BOUNDS: &[&str] =
    &["0", "1", "-1", "-inf", "+inf", "(1", "(0", "7", "(7", "3", "-3", "(-inf", "100", "( 1", "("];
const NAMES: &[&str] =
    &["-", "+", "[a", "(1", "[1", "(hello", "[hello", "[", "(", "-", "+", "1", "", "0", "-1", "2"];
const MEMBERS: &[&str] = &["a", "b", "c", "hello", "1", "10", "3.25", "palermo"];
const PLACES: &[&str] = &["g1", "g2", "{a}g"];
const LONGITUDES: &[&str] =
    &["13.361389", "15.087269", "-122.41", "0", "180", "-180", "181", "abc", "139.69", "13.5"];
const LATITUDES: &[&str] =
    &["38.115556", "37.502669", "37.77", "0", "85", "-85", "86", "", "35.68", "38"];
/// Radii, widths, heights.
const LENGTHS: &[&str] = &["200", "1000", "0", "0.5", "50000", "-1", "abc", "5000000", "250.5"];
/// The maximum length of requests that later versions of Redis extended.
const EXTENDED: &[(&str, usize)] = &[("zrank", 3), ("zrevrank", 3)];
const STREAMS: &[&str] = &["x1", "x2", "{a}x"];
/// IDs for new entries: no time of day, which differs between two servers.
const NEW_IDS: &[&str] =
    &["5-*", "5-*", "5-*", "5-*", "5-1", "5-3", "5-9", "5", "6-*", "1-1", "0-*", "0-0", "+", "7-"];
/// IDs that usually exist, and words that may stand for one.
const IDS: &[&str] = &[
    "5-1", "5-2", "5-3", "5-4", "5", "(5-1", "(5-3", "-", "+", "0", "0-0", "6", "$", ">", "5-9",
    "x", ">", ">",
];
/// The command that allocates for as many entries as COUNT says at once.
const COUNTED: &str = "xautoclaim";
/// Names of groups.
const GROUPS: &[&str] = &["g", "g", "g", "group", ""];
const CONSUMERS: &[&str] = &["alice", "alice", "bob", "carol", ""];
/// Times that are far from any clock.
const IDLE_TIMES: &[&str] = &["0", "0", "0", "100000000", "-1", "x"];
const THRESHOLDS: &[&str] = &["0", "1", "2", "3", "5", "5-2", "5-4", "-1", "(5", "100"];
const NUMBERS_OF_KEYS: &[&str] = &["1", "1", "1", "2", "3", "0"];
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "10",
    "007",
    "+5",
    " 5",
    "5 ",
    "3.25",
    "-0.5",
    "1e5",
    "inf",
    "nan",
    "0x10",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "12345678901234567890123",
    "hello",
    "hello world",
    "\r\n",
    "a\0b",
    "9999",
    "10000",
    "exactly forty-four bytes long, as embstr is.",
    "just forty-five bytes, which makes it a raw..",
];
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "-3",
    "100",
    "10000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "abc",
    "",
    "1.5",
    "536870912",
    "4294967296",
];
/// Offsets of bits, and of bytes for SETRANGE.
const OFFSETS: &[&str] =
    &["0", "1", "7", "8", "13", "100", "#0", "#3", "-1", "10000", "4294967296", "abc", "", "1.5"];
const WIDTHS: &[&str] =
    &["u1", "i1", "u8", "i8", "i5", "u63", "i64", "u13", "u64", "i65", "u0", "8", "", "I8"];
const OPERATIONS: &[&str] = &["AND", "or", "Xor", "NOT", "NAND", ""];
const TIMES: &[&str] = &[
    "100000",
    "86400000",
    "0",
    "-1",
    "-100000",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775808",
    "9223372036854775808",
    "abc",
    "1.5",
    "",
];
/// Timeouts of blocking commands, in seconds; never forever.
const TIMEOUTS: &[&str] =
    &["0.001", "0.001", "0.001", "1e-3", "0.0011", "-1", "-0.5", "abc", "", "nan", "-inf", "1e300"];
const UNIX_TIMES: &[&str] =
    &["9999999999", "9999999999999", "1", "0", "-5", "9223372036854775807", "x"];
const PATTERNS: &[&str] = &["*", "a*", "?", "[a-c]", "{a}*", "nothing", "\\a", "[", "*e*"];
/// Patterns of names of keys, with places for elements.
const KEY_PATTERNS: &[&str] =
    &["*", "*", "{a}*", "{a}*", "h*->1", "h*->hello", "{a}*->0", "w_*", "#", "a", "*->", "*->*"];
const DATABASES: &[&str] = &["0", "1", "2", "0", "1", "15", "16", "-1", "x", "3000000000"];
const JUNK: &[&str] =
    &["junk", "", "NX", "XX", "GET", "EX", "KEEPTTL", "DB", "REPLACE", "LIMIT", "*"];

/// Lengths at which the encoding of values changes.
const TEXT_LENGTHS: &[usize] =
    &[63, 64, 65, 511, 512, 513, 4088, 4096, 4104, 16_383, 16_385, 65_537, 300_000];

/// All keys that requests may name.
pub fn keys_of_requests() -> impl Iterator<Item = &'static str> {
    [KEYS, HASHES, SETS, LISTS, SORTED_SETS, PLACES, STREAMS].into_iter().flatten().copied()
}

/// A request for the command, in a form that Redis 7.0 accepts.
pub fn request(spec: &CommandSpec, random: &mut Rng) -> Vec<Vec<u8>> {
    let mut words = grammatical(spec, false, random);
    if spec.name == COUNTED {
        // Whether there is memory for a huge COUNT depends on the server.
        words.retain(|word| word.len() < 9 || word.iter().any(|byte| !byte.is_ascii_digit()));
    }
    if let Some((_, most)) = EXTENDED.iter().find(|(name, _)| *name == spec.name) {
        words.truncate(*most);
    }
    if spec.name.starts_with("sort") {
        sort_unordered(&mut words);
    }
    words
}

/// A request for the command, with the options of later versions; other servers need not accept it.
pub fn latest_request(spec: &CommandSpec, random: &mut Rng) -> Vec<Vec<u8>> {
    grammatical(spec, true, random)
}

/// Makes words from the documented arguments, mostly well formed.
fn grammatical(spec: &CommandSpec, later: bool, random: &mut Rng) -> Vec<Vec<u8>> {
    let mut words = vec![spelled(spec.name, random)];
    let mut grammar = Grammar { group: spec.group, later, random };
    for arg in spec.args {
        grammar.add(&mut words, arg);
    }
    count_fields(spec, &mut words);
    if random.u8(..) < 26 {
        mutate(&mut words, random);
    }
    words
}

/// Makes some texts long.
pub fn lengthen(word: &mut Vec<u8>, random: &mut Rng) {
    if word.starts_with(b"hello") && random.u8(..3) == 0 {
        let length = TEXT_LENGTHS[random.usize(..TEXT_LENGTHS.len())];
        *word = word.iter().copied().cycle().take(length).collect();
    }
}

/// Makes the order of a SORT definite: that of a set that is not sorted, and that of equal texts
/// from other keys.
fn sort_unordered(words: &mut Vec<Vec<u8>>) {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let mut has_by = false;
    for at in 2..words.len() {
        if is(&words[at - 1], "by") {
            has_by = true;
            if !words[at].contains(&b'*') {
                words[at] = b"w_*".to_vec();
            }
        }
    }
    if has_by {
        words.retain(|word| !is(word, "alpha"));
    }
}

/// Makes the number after `FIELDS` match the fields that follow.
fn count_fields(spec: &CommandSpec, words: &mut [Vec<u8>]) {
    let Some(arg) = spec.args.last().filter(|arg| arg.token == "FIELDS") else { return };
    let is_fields = |word: &Vec<u8>| word.eq_ignore_ascii_case(arg.token.as_bytes());
    let Some(at) = words.iter().position(is_fields) else { return };
    let ArgKind::Block(of) = arg.kind else { return };
    let each = if matches!(of[1].kind, ArgKind::Block(_)) { 2 } else { 1 };
    words[at + 1] = ((words.len() - at - 2) / each).to_string().into_bytes();
}

/// A request for the subcommand.
pub fn sub_request(container: &CommandSpec, sub: &CommandSpec, random: &mut Rng) -> Vec<Vec<u8>> {
    let mut words = request(sub, random);
    words.insert(0, spelled(container.name, random));
    words
}

fn spelled(name: &str, random: &mut Rng) -> Vec<u8> {
    if random.bool() { name.to_uppercase().into_bytes() } else { name.as_bytes().to_vec() }
}

/// Adds arguments to requests.
struct Grammar<'a> {
    group: Group,
    /// Adds options of later versions too.
    later: bool,
    random: &'a mut Rng,
}

impl Grammar<'_> {
    fn knows(&self, arg: &Arg) -> bool {
        self.later || !is_later(arg)
    }

    fn add(&mut self, words: &mut Vec<Vec<u8>>, arg: &Arg) {
        if !self.knows(arg) {
            return;
        }
        if arg.is_optional && (self.random.u8(..3) > 0 || arg.token == "BLOCK") {
            // A client that waits on one connection would keep the other one waiting.
            return;
        }
        let times = if arg.is_multiple { self.random.usize(1..4) } else { 1 };
        for n in 0..times {
            if !arg.token.is_empty() && (n == 0 || arg.is_multiple_token) {
                words.push(spelled(arg.token, self.random));
            }
            match arg.kind {
                ArgKind::PureToken => {}
                ArgKind::OneOf(_) if arg.name == "id_or_auto" => words.push(self.value(arg)),
                ArgKind::OneOf(of) => {
                    let known: Vec<&Arg> = of.iter().filter(|arg| self.knows(arg)).collect();
                    let mut chosen = *known[self.random.usize(..known.len())];
                    chosen.is_optional = false;
                    self.add(words, &chosen);
                }
                ArgKind::Block(of) => of.iter().for_each(|inner| self.add(words, inner)),
                _ => words.push(self.value(arg)),
            }
        }
    }

    fn value(&mut self, arg: &Arg) -> Vec<u8> {
        value(self.group, arg, self.random).as_bytes().to_vec()
    }
}

/// Returns true if the argument is of a later version of Redis than the server.
fn is_later(arg: &Arg) -> bool {
    arg.since.starts_with(['8', '9']) || arg.since == "7.4.0"
}

/// Keys that usually have the type of a group's commands.
pub fn keys(group: Group, random: &mut Rng) -> &'static [&'static str] {
    match (group, random.u8(..12)) {
        (Group::Hash, 1..) | (Group::Generic, 0..3) => HASHES,
        (Group::Set, 1..) | (Group::Generic, 3..6) => SETS,
        (Group::List, 1..) | (Group::Generic, 6..8) => LISTS,
        (Group::SortedSet, 2..) | (Group::Generic, 9..11) => SORTED_SETS,
        (Group::SortedSet, 1) => SETS,
        (Group::Geo, 1..) | (Group::Generic, 11) => PLACES,
        (Group::Stream, 1..) | (Group::Generic, 8) => STREAMS,
        _ => KEYS,
    }
}

fn value(group: Group, arg: &Arg, random: &mut Rng) -> &'static str {
    let is_sorted = matches!(group, Group::SortedSet | Group::Geo);
    let pool = match (arg.kind, arg.name) {
        (ArgKind::Key(_), _) => keys(group, random),
        (ArgKind::String, "min" | "max" | "start" | "stop") if random.bool() => NAMES,
        (_, "min" | "max" | "start" | "stop") if is_sorted => BOUNDS,
        (_, "member" | "member1" | "member2") if is_sorted && random.u8(..4) > 0 => MEMBERS,
        (_, "longitude") => LONGITUDES,
        (_, "latitude") => LATITUDES,
        (_, "radius" | "width" | "height") => LENGTHS,
        (_, "score" | "weight" | "increment") if is_sorted => SCORES,
        (_, "group" | "groupname") => GROUPS,
        (_, "consumer" | "consumername") => CONSUMERS,
        (_, "min-idle-time") => IDLE_TIMES,
        (_, "numkeys") => NUMBERS_OF_KEYS,
        (_, "index" | "index1" | "index2" | "destination-db" | "db") => DATABASES,
        (_, "seconds" | "milliseconds") => TIMES,
        (_, "encoding") => WIDTHS,
        (_, "operation") => OPERATIONS,
        (ArgKind::Integer, "offset") => OFFSETS,
        (ArgKind::Double, "timeout") => TIMEOUTS,
        (ArgKind::Integer, _) => INTEGERS,
        (ArgKind::UnixTime, _) => UNIX_TIMES,
        (ArgKind::Pattern, _) => PATTERNS,
        (ArgKind::KeyPattern(_), _) => KEY_PATTERNS,
        (_, "id") if group == Group::Stream => IDS,
        (_, "start" | "end" | "last-id" | "max_deleted_entry_id") => IDS,
        (_, "threshold") => THRESHOLDS,
        (_, "id_or_auto") => NEW_IDS,
        _ => VALUES,
    };
    pool[random.usize(..pool.len())]
}

fn mutate(words: &mut Vec<Vec<u8>>, random: &mut Rng) {
    let at = random.usize(..words.len());
    match random.u8(..4) {
        0 if at > 0 => drop(words.remove(at)),
        1 => words.insert(at + 1, words[at].clone()),
        2 if at > 0 => words[at] = JUNK[random.usize(..JUNK.len())].into(),
        _ => words.push(JUNK[random.usize(..JUNK.len())].into()),
    }
}
