//! Effects of arguments and of several rules about one key: the kind of access, the key that is
//! named if two are denied, first arguments in any case, the length of the log.

use super::moments::{ASKS, CALLS};
use super::prefixed;
use crate::steps::{ADMIN, Act, Alike, Case, Words, with, words};
use fastrand::Rng;

/// Commands whose access to a key depends on their arguments, or that have several keys.
const REQUESTS: &[&str] = &[
    "SET a 1",
    "SET a 1 GET",
    "set a 1 ex 10 get",
    "SET a 1 NX",
    "SET get GET",
    "BITFIELD a GET u8 0",
    "bitfield a get u8 0 get u4 0",
    "BITFIELD a SET u8 0 1",
    "BITFIELD a GET u8 0 INCRBY u8 0 1",
    "BITFIELD a OVERFLOW SAT GET u8 0",
    "BITFIELD a",
    "GETEX a",
    "GETEX a PERSIST",
    "GETDEL a",
    "GET a",
    "DEL a",
    "DEL b a",
    "UNLINK a b",
    "EXPIRE a 1",
    "LPUSH a x",
    "LPOP a",
    "RENAME a b",
    "COPY a b",
    "SMOVE a b x",
    "LMOVE b a LEFT LEFT",
    "MSET a 1 b 2",
    "MGET b a c",
    "SORT a",
    "SORT a STORE b",
    "SORT_RO a",
    "ZUNIONSTORE a 2 b c",
    "SINTERSTORE b a c",
    "PFCOUNT a b",
    "PFMERGE a b",
    "GEORADIUS a 1 1 1 km STORE b",
    "MIGRATE h 1 a 0 1",
    "MIGRATE h 1  0 1 KEYS a b c",
    "MIGRATE h 1  0 1 keys b a",
    "XREAD STREAMS a b 0 0",
    "EVAL x 2 a b",
    "OBJECT FREQ a",
    "PUBLISH a m",
    "SPUBLISH a m",
    "SUBSCRIBE a b",
    "PSUBSCRIBE a*",
    "SSUBSCRIBE a1 b",
    "SSUBSCRIBE a*",
    "SELECT 1",
    "SELECT 0",
    "ECHO A",
    "ECHO aB",
];
/// Rules that allow one kind of access each, or both.
pub(super) const RULES: &[&str] = &[
    "%R~a",
    "%W~a",
    "%RW~a",
    "%R~*",
    "%W~*",
    "%R~b",
    "%W~b",
    "~b",
    "~a",
    "%r~a",
    "%WR~b",
    "~c",
    "%WW~a",
    "%RR~b",
    "(%R~a +@all)",
    "(%W~a +@all)",
    "(~b +@all)",
    "(%R~b %W~a +@all)",
    "(%R~* +@all &a*)",
    "&a*",
    "&a",
    "&a?",
    "resetkeys",
    "resetchannels",
    "+@all",
    "-@write",
    "-@read",
    "-set",
    "-bitfield",
    "-select",
    "+select|0",
    "-echo",
    "+echo|a",
    "+echo|AB",
    "+echo|Ab",
    "+select|1",
    "-@pubsub",
];
/// Sorts that look up keys which they do not name, and others.
const SORTS: &[&str] = &[
    "SORT l BY w_*",
    "SORT l GET x_*",
    "SORT l BY nosort GET #",
    "SORT l GET # GET x_*",
    "SORT l BY w_* GET x_* STORE s",
    "SORT l BY nosort",
    "SORT_RO l BY w_*->f",
    "SORT_RO l GET #",
    "SORT_RO l by w_* get x_*",
];
/// Rules by which all keys, or nearly all, may be read, by the command itself or by another.
const SORTING: &[&str] = &[
    "~*",
    "%R~*",
    "%W~*",
    "%RW~*",
    "~l",
    "~s",
    "~**",
    "%R~*l",
    "%R~*?",
    "%R~l %W~*",
    "+@all",
    "+sort",
    "-sort",
    "-sort_ro",
    "(%R~* +@all)",
    "(%R~* +get)",
    "(~* +sort)",
    "(~* +sort_ro)",
    "(%W~* +@all)",
    "(%R~*l %W~* +@all)",
    "(~l ~s +@all)",
    "(allkeys -@all +@read)",
];
/// Rules with a byte that a line of a file cannot contain in this place.
const BYTES: &[&[u8]] = &[b"~a\tb", b"~a\x0b", b"&a\nb", b"%R~\rb", b"~\x0c"];

fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

/// A request about these keys and channels, now and then with another number, other letters, or a
/// zero in a word.
pub(super) fn request(random: &mut Rng) -> Words {
    let mut request = words(of(REQUESTS, random));
    if random.u8(..6) == 0 {
        let at = random.usize(1..request.len());
        let word = &mut request[at];
        match str::from_utf8(word).ok().and_then(|word| word.parse::<u8>().ok()) {
            Some(_) => *word = of(&["0", "1", "2", "3", "9", "-1"], random).into(),
            // Not in a first argument, or an option, which redis-server compares up to a zero.
            None if at > 1 && word.len() == 1 => word.extend(b"\0x"),
            None => word.make_ascii_uppercase(),
        }
    }
    request
}

/// Asks in one of the ways in which a permission is checked: without executing the command, by
/// itself, in a transaction, in a script, or by a script that only asks.
fn asked(case: &mut Case, request: Words, random: &mut Rng) {
    let name = request[0].to_ascii_uppercase();
    let is_quick = !name.ends_with(b"SUBSCRIBE") && name != b"MIGRATE" && name != b"SELECT";
    match if is_quick { random.u8(..6) } else { 0 } {
        0 | 1 => case.add(ADMIN, Act::Call(prefixed("ACL DRYRUN u", &request)), Alike::Same),
        2 => case.client(request, Alike::Refusal),
        3 => {
            case.client(words("MULTI"), Alike::Same);
            case.client(request, Alike::Refusal);
            case.client(words("EXEC"), Alike::Refusal);
        }
        // A script may not call a script.
        _ if name == b"EVAL" => case.client(request, Alike::Refusal),
        4 => case.client([with("EVAL", &[CALLS.as_bytes(), b"0"]), request].concat(), Alike::Same),
        _ => case.client([with("EVAL", &[ASKS.as_bytes(), b"0"]), request].concat(), Alike::Same),
    }
}

/// Adds users with a few rules about the same keys, and commands that these rules allow or deny.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    for _ in 0..3 {
        let mut rules = vec!["ACL SETUSER u reset on nopass +@all"];
        for _ in 0..random.usize(1..6) {
            rules.push(of(RULES, random));
        }
        case.admin(&rules.join(" "), Alike::Same);
        case.admin("ACL GETUSER u", Alike::Rules);
        case.client(words("AUTH u x"), Alike::Same);
        for _ in 0..16 {
            asked(case, request(random), random);
        }
    }
    sorted(case, random);
    let bytes = BYTES[random.usize(..BYTES.len())].to_vec();
    case.add(ADMIN, Act::Call(prefixed("ACL SETUSER u", &vec![bytes])), Alike::Same);
    case.admin(&format!("ACL GENPASS {}", random.usize(1..12)), Alike::Length);
    log(case, random);
}

/// Tests the keys that SORT may look up.
fn sorted(case: &mut Case, random: &mut Rng) {
    case.client(words("AUTH u x"), Alike::Refusal);
    for _ in 0..4 {
        let mut rules = vec!["ACL SETUSER u reset on nopass +@all -debug"];
        rules.extend((0..random.usize(1..5)).map(|_| of(SORTING, random)));
        case.admin(&rules.join(" "), Alike::Same);
        for _ in 0..3 {
            case.client(words(of(SORTS, random)), Alike::Refusal);
        }
    }
}

/// Adds about as many different entries as LOG shows, compares and keeps, some of them again.
fn log(case: &mut Case, random: &mut Rng) {
    case.admin("ACL LOG RESET", Alike::Same);
    case.admin("ACL SETUSER u reset on nopass +@all", Alike::Same);
    case.client(words("AUTH u x"), Alike::Same);
    let kept = of(&["128", "128", "10", "11", "1", "0"], random);
    case.admin(&format!("CONFIG SET acllog-max-len {kept}"), Alike::Same);
    let number = random.usize(8..13);
    for n in 0..number {
        case.client(words(&format!("GET k{n}")), Alike::Refusal);
    }
    let again = random.usize(..number);
    for n in [0, again, number - 1] {
        case.client(words(&format!("GET k{n}")), Alike::Refusal);
    }
    case.admin("ACL LOG", Alike::Log);
    let kept = of(&["128", "9", "10", "11", "2"], random);
    case.admin(&format!("CONFIG SET acllog-max-len {kept}"), Alike::Same);
    // Redis truncates it at the next entry.
    case.client(words("GET last"), Alike::Refusal);
    case.admin("ACL LOG 100", Alike::Log);
}
