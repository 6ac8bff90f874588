//! Rules, names and numbers that are nearly right: each is a sound one with one small change, so
//! that no list has to foresee what a parser could accept by mistake.

use crate::steps::{ADMIN, Act, Alike, Case, with, words};
use fastrand::Rng;

/// Sound words of rules.
const SOUND: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">secret",
    "<secret",
    "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
    "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
    "!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
    "allkeys",
    "resetkeys",
    "resetkeys",
    "~a",
    "~ab*",
    "%R~a",
    "%W~b",
    "%RW~ab",
    "allchannels",
    "resetchannels",
    "resetchannels",
    "&a",
    "&ab*",
    "+@all",
    "-@all",
    "+@read",
    "-@write",
    "+get",
    "-set",
    "+config|get",
    "-config|set",
    "+echo|a",
    "+select|0",
    "(~a +get)",
    "(%R~b &c +@read)",
    "clearselectors",
    "reset",
    "sanitize-payload",
    "skip-sanitize-payload",
];
/// Bytes that a change puts into a word. Not zero, which ends a word for redis-server.
const BYTES: &[u8] = b" \t\n\r\x0b\x0c\x01aAfFgzZ09|()~&+-@#%*\"\\\x80\xff";
/// Numbers of bits, most at the edge of a digit or of the limits.
const BITS: &[&str] =
    &["-1", "0", "1", "3", "4", "5", "7", "8", "9", "255", "257", "4095", "4096", "4097", "4100"];

fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

/// Returns a word with one byte more, or less, or another one.
fn changed(word: &str, random: &mut Rng) -> Vec<u8> {
    let mut word = word.as_bytes().to_vec();
    let at = random.usize(..word.len());
    let byte = BYTES[random.usize(..BYTES.len())];
    match random.u8(..6) {
        0 => word.insert(at, byte),
        1 => word.push(byte),
        2 => word[at] = byte,
        3 => word.insert(at, word[at]),
        4 if word[at].is_ascii_alphabetic() => word[at] ^= b' ',
        _ => drop(word.remove(at)),
    }
    word
}

/// Returns true if redis-server takes a word for another one, as docs/compatibility.md says: quotes
/// in selectors, blanks in first arguments, a parenthesis at the end of a selector's pattern.
fn is_other(word: &[u8]) -> bool {
    let has = |bytes: &[u8]| word.iter().any(|byte| bytes.contains(byte));
    match word.first() {
        Some(b'(') => has(b"\"") || word.ends_with(b"))"),
        Some(b'+') => has(b"|") && has(b" \t\n\r\x0b\x0c"),
        _ => false,
    }
}

/// Adds words of rules, names of users, and numbers of bits.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    for _ in 0..10 {
        let word = of(SOUND, random);
        let word = if random.u8(..3) == 0 { word.into() } else { changed(word, random) };
        if is_other(&word) {
            continue;
        }
        case.add(ADMIN, Act::Call(with("ACL SETUSER u", &[&word])), Alike::Same);
        case.admin("ACL GETUSER u", Alike::Rules);
    }
    let mut names = vec![changed("u", random), changed("name", random)];
    names[0].extend((random.u8(..4) == 0).then_some(0));
    for name in &names {
        case.add(ADMIN, Act::Call(with("ACL SETUSER", &[name, b"on"])), Alike::Same);
    }
    case.admin("ACL USERS", Alike::Unordered);
    case.admin(&format!("ACL GENPASS {}", of(BITS, random)), Alike::Length);
    case.add(ADMIN, Act::Call(with("ACL GENPASS", &[&changed("256", random)])), Alike::Length);
    for name in names.iter().filter(|name| *name != b"default") {
        case.add(ADMIN, Act::Call(with("ACL DELUSER", &[name])), Alike::Same);
    }
    case.client(words("ACL WHOAMI"), Alike::Same);
}
