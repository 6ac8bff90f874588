//! The user that connections have from their start: it is disabled, gets passwords and limits, and
//! clients begin anew, or log in as it.

use crate::steps::{Act, Alike, Case, words};
use fastrand::Rng;

/// Changes of the default user. Not of its rights to ACL, which the administrator needs.
const CHANGES: &[&str] = &[
    "ACL SETUSER default off",
    "ACL SETUSER default on",
    "ACL SETUSER default nopass",
    "ACL SETUSER default resetpass",
    "ACL SETUSER default >secret",
    "ACL SETUSER default <secret",
    "ACL SETUSER default >other",
    "ACL SETUSER default off nopass",
    "ACL SETUSER default on >secret",
    "ACL SETUSER default -get",
    "ACL SETUSER default +get",
    "ACL SETUSER default resetkeys ~b",
    "ACL SETUSER default allkeys",
    "CONFIG SET requirepass secret",
    "CONFIG SET requirepass other",
    "CONFIG SET requirepass ",
];
/// Requests of a client that has no user yet, or another one.
const REQUESTS: &[&str] = &[
    "RESET",
    "RESET",
    "AUTH secret",
    "AUTH other",
    "AUTH default secret",
    "AUTH default other",
    "AUTH default ",
    "AUTH u x",
    "HELLO 2",
    "HELLO 3 AUTH default secret",
    "GET a",
    "GET b",
    "ACL WHOAMI",
    "MULTI",
    "DISCARD",
];

fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

/// Adds changes of the default user between the requests of two clients.
pub(super) fn add(case: &mut Case, random: &mut Rng) {
    for client in [1, 2] {
        case.add(client, Act::Call(words("PING")), Alike::Same);
    }
    for _ in 0..random.usize(4..10) {
        case.admin(of(CHANGES, random), Alike::Same);
        for _ in 0..random.usize(1..5) {
            let line = of(REQUESTS, random);
            let how = if line.starts_with("HELLO") { Alike::Refusal } else { Alike::Same };
            let client = random.usize(1..3);
            case.add(client, Act::Call(words(line)), how);
        }
    }
    case.admin("ACL GETUSER default", Alike::Rules);
    case.admin("ACL LOG", Alike::Log);
}
