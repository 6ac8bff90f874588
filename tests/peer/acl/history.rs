//! Histories: denials in each context, one after the other; words about one user's passwords,
//! selectors and first arguments; files of users that no server has saved.

use super::prefixed;
use crate::steps::{ADMIN, Act, Alike, CLIENT, Case, Words, with, words};
use fastrand::Rng;

/// Commands that are denied to users who may execute everything but GET and CONFIG, without any of
/// these keys and channels; `*` is a number.
const DENIED: &[&str] = &[
    "GET k*",
    "SET k* v",
    "SET k* v",
    "PUBLISH c* m",
    "CONFIG GET c*",
    "DEL a k*",
    "AUTH u wrong",
    "AUTH n* wrong",
    // One name of several kinds.
    "SET get v",
    "PUBLISH get m",
    "AUTH get wrong",
];
/// A script that calls the command in its arguments.
const CALLS: &str = "return redis.pcall(unpack(ARGV))";
/// Words about passwords and about selectors.
const SECRETS: &[&str] = &[
    ">one",
    ">two",
    ">three",
    ">four",
    ">one",
    "<one",
    "<two",
    "<three",
    "<four",
    "nopass",
    "resetpass",
    "reset",
    "on",
    "off",
];
const SELECTORS: &[&str] = &[
    "(~a +get)",
    "(+set %W~b)",
    "(&c +publish)",
    "(+@all)",
    "(~a +get)",
    "clearselectors",
    "reset",
];
/// Words about commands with a first argument.
const FIRST: &[&str] = &[
    "+echo|a",
    "+echo|A",
    "+echo|b",
    "+echo|B",
    "+echo|aB",
    "-echo",
    "+echo",
    "-@all",
    "+@all",
    "-@connection",
    "+@connection",
    "nocommands",
    "+select|0",
    "+select|1",
    "-select",
    "(+echo|a)",
    "(+echo|B +select|1)",
    "+get|A",
    "-@string",
    "-get",
];
const WITH_FIRST: &[&str] =
    &["ECHO a", "ECHO A", "ECHO b", "ECHO B", "ECHO AB", "ECHO c", "SELECT 0", "SELECT 1", "GET a"];
/// Lines of an ACL file.
// No parenthesis is left open: redis-server 7.0.15 ends by a signal then.
const LINES: &[&str] = &[
    "user default on nopass ~* &* +@all",
    "user default on >secret ~* &* +@all",
    "user u on nopass +@all ~*",
    "user u on >secret ~a +get (~b +set)",
    "user v on nopass +@all ~* &*",
    "user w off",
    "  user w on  +get   ~a  ",
    "user w on ( +get ~a )",
    "",
    "   ",
    "user",
    "users u on",
    "user u +nothing",
    "user w on ~a ~b +nothing +other",
    "# user u",
    "user v >x #abc",
    "USER v on",
];

fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

/// Adds one of them.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    match random.u8(..8) {
        0..3 => denied(case, random),
        3 => about(case, SECRETS, &[], random),
        4 => about(case, SELECTORS, &["GET a", "SET b v", "PUBLISH c m", "GET b"], random),
        5 => about(case, FIRST, WITH_FIRST, random),
        _ => file(case, random),
    }
}

/// Two users are denied commands, alone, in a transaction and in a script: with few names
/// repeatedly, or with more names than the log compares.
fn denied(case: &mut Case, random: &mut Rng) {
    let names = [1, 2, 4, 14][random.usize(..4)];
    for user in ["u", "v"] {
        case.admin(&format!("ACL SETUSER {user} on nopass +@all -get -config ~a"), Alike::Same);
    }
    case.client(words("AUTH u x"), Alike::Same);
    case.add(2, Act::Call(words("AUTH v x")), Alike::Same);
    case.add(ADMIN, Act::ForgetDenied, Alike::Same);
    for _ in 0..random.usize(6..24) {
        let who = if random.u8(..3) == 0 { 2 } else { CLIENT };
        let request = words(&of(DENIED, random).replace('*', &random.usize(..names).to_string()));
        let is_auth = request[0] == b"AUTH";
        let mut ask = |request| case.add(who, Act::Call(request), Alike::Refusal);
        match random.u8(..4) {
            0 if !is_auth => {
                ask(words("MULTI"));
                ask(request);
                ask(words("EXEC"));
            }
            1 if !is_auth => ask([with("EVAL", &[CALLS.as_bytes(), b"0"]), request].concat()),
            2 => ask(words(&format!("CLIENT SETNAME n{}", random.u8(..4)))),
            _ => ask(request),
        }
    }
    case.admin("ACL LOG", Alike::Log);
    case.admin("ACL LOG 1000", Alike::Log);
    case.add(ADMIN, Act::CountDenied, Alike::Same);
}

/// Applies one word after the other to a user, and tests the user's rights.
fn about(case: &mut Case, rules: &[&str], requests: &[&str], random: &mut Rng) {
    case.admin("ACL SETUSER u reset on nopass", Alike::Same);
    for _ in 0..random.usize(3..12) {
        let few: Vec<&str> = (0..random.usize(1..4)).map(|_| of(rules, random)).collect();
        for rule in few {
            case.add(ADMIN, Act::Call(with("ACL SETUSER u", &[rule.as_bytes()])), Alike::Same);
        }
        case.admin("ACL GETUSER u", Alike::Rules);
        for _ in 0..requests.len().min(3) {
            let request: Words = words(of(requests, random));
            case.add(ADMIN, Act::Call(prefixed("ACL DRYRUN u", &request)), Alike::Same);
        }
    }
    case.client(words(of(&["AUTH u one", "AUTH u two", "AUTH u x"], random)), Alike::Same);
}

/// A file that no server has saved.
fn file(case: &mut Case, random: &mut Rng) {
    case.admin("ACL SETUSER u on nopass ~* +@all", Alike::Same);
    case.client(words("AUTH u x"), Alike::Same);
    if random.bool() {
        case.admin("ACL SETUSER default -debug", Alike::Same);
    }
    let sound = random.bool();
    let among = if sound { &LINES[..10] } else { LINES };
    let lines: Vec<&str> = (0..random.usize(..5)).map(|_| of(among, random)).collect();
    case.add(ADMIN, Act::WriteFiles(lines.join("\n")), Alike::Same);
    case.admin("ACL LOAD", Alike::InFile);
    case.admin("ACL USERS", Alike::Unordered);
    case.admin("ACL LIST", Alike::Rules);
    case.add(CLIENT, Act::IsOpen, Alike::Refusal);
    case.client(words("GET a"), Alike::Refusal);
}
