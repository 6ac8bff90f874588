//! Rules of users: a few words about the needs of some commands, and words about anything else.

use super::requests::Chosen;
use fastrand::Rng;

/// Categories of commands.
pub(super) const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "all",
];
/// Patterns of the keys in requests, or nearly.
const PATTERNS: &[&str] = &[
    "a", "b", "h*", "h1", "t?", "{a}*", "*", "*", "l[12]", "z1", "z*", "x*", "key:*", "e", "",
    "g*", "\\a", "[^a]*", "nothing", "d*", "*1", "?", "1",
];
/// Patterns of the channels in requests, or nearly.
const CHANNELS: &[&str] =
    &["*", "hello*", "1*", "a*", "0", "?", "[a-c]", "", "{a}*", "*e*", "10", "hello", "-1"];
/// First arguments of commands, among them those in requests.
const FIRST: &[&str] =
    &["a", "A", "b", "h1", "hello", "0", "1", "x1", "and", "AND", "*", "", "a|b"];
/// Words that are wrong, or nearly.
const WRONG: &[&str] = &[
    "+nothing",
    "-nothing",
    "+@nothing",
    "-@nothing",
    "+get|",
    "-get|a",
    "+config|nothing",
    "%~a",
    "%X~a",
    "%RR~a",
    "%R",
    "%W",
    "%RW",
    "%",
    "~a b",
    "&a b",
    "(",
    "(+get",
    "+get)",
    "()",
    "(~a",
    "(on)",
    "(+@all ~* ) +get",
    ">",
    "#",
    "#abc",
    "<nothing",
    "!abc",
    "nonsense",
    "",
    "+",
    "-",
    "+@",
    "~",
    "&",
    "+acl|whoami|x",
    "+select|0|1",
    "-select|0",
    "(+get ~a ) ",
    "( +get )",
    "(((+get)",
    "~*",
    "&*",
    "allkeys",
    "(reset)",
    "(nopass)",
    "+get|x)",
    "!#",
    "<",
];
/// Words that apply to a user, and not to a selector.
const OF_USER: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">secret",
    ">other",
    "<secret",
    "<other",
    "reset",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "ON",
    "NoPass",
    "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
    "!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
    "#2BB80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
];

fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

/// The words of an ACL SETUSER command.
pub(super) fn words(about: &Chosen<'_>, random: &mut Rng) -> Vec<String> {
    let mut words = base(random);
    for _ in 0..random.usize(1..6) {
        match random.u8(..40) {
            0..28 => words.push(of_selector(about, random)),
            28..34 => selector(&mut words, about, random),
            34..39 => words.push(of(OF_USER, random).to_owned()),
            _ => words.push(of(WRONG, random).to_owned()),
        }
    }
    leave_out_second_beginnings(&mut words);
    words
}

/// Leaves out words with which a selector seems to begin within another one: redis-server 7.0
/// forgets the first one then. Perdura refuses both, as Redis 8 does.
fn leave_out_second_beginnings(words: &mut Vec<String>) {
    let mut is_open = false;
    words.retain(|word| {
        let (begins, ends) = (word.starts_with('('), word.ends_with(')'));
        let is_kept = !is_open || !begins || ends;
        is_open = (is_open || begins) && !ends;
        is_kept
    });
}

/// The first words of most users.
fn base(random: &mut Rng) -> Vec<String> {
    let words: &[&str] = match random.u8(..8) {
        0 => &["on", "nopass", "+@all"],
        1 => &["on", ">secret", "~*", "&*", "+@all"],
        2 => &["on", ">secret", "allkeys", "allcommands"],
        3 => &["on", "nopass", "resetkeys", "resetchannels", "-@all"],
        4 => &["nopass", "on", "+@all", "resetkeys"],
        _ => &[],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A selector, as one word or as several.
fn selector(words: &mut Vec<String>, about: &Chosen<'_>, random: &mut Rng) {
    let mut inner: Vec<String> =
        (0..random.usize(0..5)).map(|_| of_selector(about, random)).collect();
    inner.retain(|word| !word.is_empty());
    let whole = format!("({})", inner.join(" "));
    match random.bool() {
        true => words.push(whole),
        false => words.extend(whole.split(' ').map(str::to_owned)),
    }
}

/// A word about commands, keys or channels.
fn of_selector(about: &Chosen<'_>, random: &mut Rng) -> String {
    let sign = if random.u8(..5) < 3 { '+' } else { '-' };
    match random.u8(..20) {
        0..5 => format!("{sign}{}", spelled(about.name(random), random)),
        5..7 => format!("+{}|{}", about.name(random), of(FIRST, random)),
        7..10 => format!("{sign}@{}", spelled(of(CATEGORIES, random).to_owned(), random)),
        10 => format!("{sign}{}", about.name(random).split('|').next().unwrap_or_default()),
        11..13 => format!("~{}", of(PATTERNS, random)),
        13..16 => {
            let access = of(&["R", "W", "RW", "WR", "r", "w"], random);
            format!("%{access}~{}", of(PATTERNS, random))
        }
        16..18 => format!("&{}", of(CHANNELS, random)),
        18 => of(&["allkeys", "resetkeys", "allchannels", "resetchannels"], random).to_owned(),
        _ => of(&["allcommands", "nocommands", "+@all", "-@all", "ResetKeys"], random).to_owned(),
    }
}

fn spelled(word: String, random: &mut Rng) -> String {
    if random.u8(..4) == 0 { word.to_uppercase() } else { word }
}
