//! Users that are changed between a command and its effect: queued and blocked commands,
//! subscriptions, calls of scripts; and changes of a client's user.

use super::requests::Requests;
use super::{access, prefixed, rules, set_user};
use crate::steps::{ADMIN, Act, Alike, CLIENT, Case, Words, with, words};
use fastrand::Rng;

/// A user that may do everything.
const UNLIMITED: &str = "ACL SETUSER u on nopass ~* &* +@all";

/// A command that waits, and the command that ends the wait.
const BLOCKED: &[(&str, &str)] = &[
    ("BLPOP h k 0", "RPUSH k a"),
    ("BRPOP k 0", "LPUSH k a"),
    ("BLMPOP 0 2 b k LEFT", "RPUSH k a"),
    ("BLMOVE k b LEFT RIGHT 0", "RPUSH k a"),
    ("BRPOPLPUSH k b 0", "RPUSH k a"),
    ("BZPOPMIN k 0", "ZADD k 1 a"),
    ("BZPOPMAX b k 0", "ZADD k 1 a"),
    ("BZMPOP 0 1 k MAX", "ZADD k 1 a"),
    ("XREAD BLOCK 0 STREAMS k $", "XADD k 9-1 f v"),
    ("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XADD s 9-1 f v"),
];
/// Changes of the user: effective, nearly, or not at all.
const TAKEN: &[&str] = &[
    "resetkeys",
    "resetkeys ~k",
    "resetkeys ~b ~h",
    "resetkeys %R~*",
    "resetkeys %W~*",
    "-@all",
    "-@blocking",
    "-@list",
    "-@write",
    "-@sortedset",
    "-@stream",
    "off",
    "resetpass",
    "allkeys",
    "nocommands (+@all ~*)",
    "nocommands (+@all ~k)",
    "resetkeys %RW~k %W~b",
    "-@all +@list",
    "resetkeys ~s (%R~k +@all)",
    "reset",
];
/// Channels and patterns of subscriptions.
const LISTENED: &[&str] = &["hello", "news.*", "news.a", "a", "*", "1"];
/// Changes that affect subscriptions.
const SILENCED: &[&str] = &[
    "resetchannels",
    "resetchannels &hello",
    "resetchannels &news.*",
    "resetchannels &news.a &1",
    "resetchannels (&hello +@all)",
    "allchannels",
    "resetchannels &*",
    "-@all",
    "resetchannels &a*",
    "resetchannels &news.? (&*)",
    "off",
    "reset",
];
/// Logins of a client.
const LOGINS: &[&str] = &[
    "AUTH u secret",
    "AUTH u other",
    "AUTH u wrong",
    "AUTH v secret",
    "AUTH default x",
    "AUTH x",
    "AUTH secret",
    "HELLO 3 AUTH u secret",
    "HELLO 2 AUTH u other",
    "HELLO 3 AUTH v wrong",
    "AUTH u",
    "AUTH nobody x",
    "ACL WHOAMI",
    "GET a",
    "RESET",
    "AUTH w secret",
];

/// A script that reports of each of its calls whether it was refused.
pub(super) const CALLS: &str = "local r = redis.pcall(unpack(ARGV))
if type(r) == 'table' and r.err and string.find(r.err, 'The user executing') then return r.err end
return 'done'";
pub(super) const ASKS: &str = "return redis.acl_check_cmd(unpack(ARGV)) and 1 or 0";

fn of<'a>(all: &[&'a str], random: &mut Rng) -> &'a str {
    all[random.usize(..all.len())]
}

/// Adds the steps of one of them.
pub(super) fn add(case: &mut Case, requests: &Requests, random: &mut Rng) {
    case.admin(UNLIMITED, Alike::Same);
    match random.u8(..14) {
        0..3 => queued(case, requests, random),
        3..5 => blocked(case, random),
        5..7 => listening(case, random),
        7..9 => called(case, requests, random),
        9 => deleted(case, random),
        10 => loaded(case, requests, random),
        11..13 => by_itself(case, random),
        _ => authenticated(case, random),
    }
    case.admin("ACL LOG 20", Alike::Log);
}

/// Rules change before commands are queued, between them, or before EXEC.
fn queued(case: &mut Case, requests: &Requests, random: &mut Rng) {
    let about = requests.some(random);
    case.client(words("AUTH u x"), Alike::Same);
    if random.u8(..3) == 0 {
        set_user(case, &rules::words(&about, random));
    }
    case.client(words("MULTI"), Alike::Refusal);
    let change = random.usize(..7);
    for at in 0..6 {
        if at == change {
            set_user(case, &rules::words(&about, random));
        }
        let request = about.request(random);
        if about.is_harmless(&request) {
            case.client(request, Alike::Refusal);
        }
    }
    if change == 6 {
        set_user(case, &rules::words(&about, random));
    }
    case.client(words("EXEC"), Alike::Refusal);
}

/// Rules change while a client is blocked.
fn blocked(case: &mut Case, random: &mut Rng) {
    let (asked, fill) = BLOCKED[random.usize(..BLOCKED.len())];
    case.admin("XGROUP CREATE s g $ MKSTREAM", Alike::Any);
    case.client(words("AUTH u x"), Alike::Same);
    case.add(CLIENT, Act::Send(words(asked)), Alike::Same);
    case.add(ADMIN, Act::AwaitBlocked, Alike::Same);
    case.admin(&format!("ACL SETUSER u {}", of(TAKEN, random)), Alike::Same);
    case.add(ADMIN, Act::Call(prefixed("ACL DRYRUN u", &words(asked))), Alike::Same);
    case.admin(fill, Alike::Any);
    case.add(CLIENT, Act::Receive, Alike::Served);
    case.admin("ACL LOG", Alike::Logged);
    case.admin("ACL LOG RESET", Alike::Same);
}

/// Rules change while a client is subscribed.
fn listening(case: &mut Case, random: &mut Rng) {
    // Another user listens to the same, and keeps its rights.
    case.admin("ACL SETUSER v on nopass ~* &* +@all", Alike::Same);
    case.client(words("AUTH u x"), Alike::Same);
    case.add(2, Act::Call(words(of(&["AUTH v x", "AUTH v x", "AUTH u x"], random))), Alike::Same);
    let mut names = Vec::new();
    for _ in 0..random.usize(1..4) {
        let how = of(&["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"], random);
        names.push(of(LISTENED, random));
        let line = words(&format!("{how} {}", names[names.len() - 1]));
        case.add(2, Act::Call(line.clone()), Alike::Same);
        case.client(line, Alike::Same);
    }
    if random.bool() {
        let how = of(&["UNSUBSCRIBE", "PUNSUBSCRIBE"], random);
        case.client(words(&format!("{how} {}", of(LISTENED, random))), Alike::Same);
    }
    for _ in 0..random.usize(1..3) {
        let rules = match random.bool() {
            true => of(SILENCED, random).to_owned(),
            false => left(&names, random),
        };
        case.admin(&format!("ACL SETUSER u {rules}"), Alike::Same);
        case.add(CLIENT, Act::IsOpen, Alike::Refusal);
        case.add(2, Act::IsOpen, Alike::Refusal);
    }
    let how = of(&["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"], random);
    case.client(words(&format!("{how} {}", of(LISTENED, random))), Alike::Same);
}

/// A user changes its own rules between its requests, which are sent in one write.
fn by_itself(case: &mut Case, random: &mut Rng) {
    case.client(words("AUTH u x"), Alike::Same);
    for _ in 0..24 {
        match random.u8(..3) {
            0 => {
                let rule = access::RULES[random.usize(..access::RULES.len())];
                let words = with("ACL SETUSER u", &[rule.as_bytes()]);
                case.client(words, Alike::Same);
            }
            _ => {
                let request = access::request(random);
                let name = request[0].to_ascii_uppercase();
                if !name.ends_with(b"SUBSCRIBE") && name != b"MIGRATE" {
                    case.client(request, Alike::Refusal);
                }
            }
        }
    }
    case.admin("ACL GETUSER u", Alike::Rules);
}

/// Rules that leave all of the subscribed names, or all but one, each by the root or by a selector,
/// literally or by a pattern.
fn left(names: &[&str], random: &mut Rng) -> String {
    let mut rules = "clearselectors resetchannels".to_owned();
    let taken = random.usize(..names.len() * 3);
    for (_, name) in names.iter().enumerate().filter(|(at, _)| *at != taken) {
        let name = match random.u8(..3) {
            0 => format!("{}?", &name[..name.len() - 1]),
            _ => (*name).to_owned(),
        };
        rules += &match random.u8(..3) {
            0 => format!(" &{name}"),
            1 => format!(" (&{name})"),
            _ => format!(" (~a &{name} +@all)"),
        };
    }
    rules
}

/// A script calls commands that its user may not execute.
fn called(case: &mut Case, requests: &Requests, random: &mut Rng) {
    let about = requests.some(random);
    case.client(words("AUTH u x"), Alike::Same);
    let mut allowed = rules::words(&about, random);
    allowed.push("+@scripting".into());
    set_user(case, &allowed);
    let wrapper =
        format!("#!lua name=l\nredis.register_function('f', function(KEYS, ARGV)\n{CALLS}\nend)");
    case.add(ADMIN, Act::Call(with("FUNCTION LOAD REPLACE", &[wrapper.as_bytes()])), Alike::Same);
    for _ in 0..8 {
        let request = about.request(random);
        // redis-server looks for BITFIELD's key after the last word of the request.
        if request.len() == 1 && request[0].to_ascii_lowercase().starts_with(b"bitfield") {
            continue;
        }
        let script = if random.u8(..3) > 0 && about.is_harmless(&request) { CALLS } else { ASKS };
        let head: Words = match (random.u8(..4), script == CALLS) {
            (0, true) => words("FCALL f 0"),
            _ => vec![b"EVAL".to_vec(), script.into(), b"0".to_vec()],
        };
        case.client(head.into_iter().chain(request).collect(), Alike::Same);
    }
}

/// Users are deleted while they are connected, and made again.
fn deleted(case: &mut Case, random: &mut Rng) {
    case.admin("ACL SETUSER v on nopass +@all", Alike::Same);
    case.client(words("AUTH u x"), Alike::Same);
    case.add(2, Act::Call(words("AUTH v x")), Alike::Same);
    if random.bool() {
        case.client(words("MULTI"), Alike::Same);
        case.client(words("SET a 1"), Alike::Same);
    }
    let line = of(&["u", "v", "v u", "nobody u", "u default", "u u", "nobody"], random);
    case.admin(&format!("ACL DELUSER {line}"), Alike::Same);
    if random.bool() {
        case.admin(UNLIMITED, Alike::Same);
    }
    case.add(CLIENT, Act::IsOpen, Alike::Refusal);
    case.add(2, Act::IsOpen, Alike::Refusal);
    case.client(words("EXEC"), Alike::Refusal);
    case.admin("ACL USERS", Alike::Unordered);
    case.admin("EXISTS a", Alike::Same);
}

/// Users come from a file that the other server has saved.
fn loaded(case: &mut Case, requests: &Requests, random: &mut Rng) {
    let about = requests.some(random);
    set_user(case, &rules::words(&about, random));
    case.client(words("AUTH u x"), Alike::Same);
    case.admin("ACL SAVE", Alike::Same);
    if random.bool() {
        case.admin("ACL SETUSER u reset off", Alike::Same);
    }
    case.admin("ACL SETUSER x on >x", Alike::Same);
    case.add(ADMIN, Act::SwapFiles, Alike::Same);
    case.admin("ACL LOAD", Alike::Same);
    case.add(CLIENT, Act::IsOpen, Alike::Refusal);
    case.admin("ACL USERS", Alike::Unordered);
    case.admin("ACL GETUSER u", Alike::Rules);
    for _ in 0..4 {
        let request = about.request(random);
        case.add(ADMIN, Act::Call(prefixed("ACL DRYRUN u", &request)), Alike::Same);
    }
}

/// A client logs in as one user, then as another.
fn authenticated(case: &mut Case, random: &mut Rng) {
    case.admin("ACL SETUSER u resetpass >secret -@all +get ~a", Alike::Same);
    case.admin("ACL SETUSER v on >secret +@all ~*", Alike::Same);
    case.admin("ACL SETUSER w >secret +@all ~*", Alike::Same);
    for _ in 0..10 {
        if random.u8(..3) == 0 {
            let word = of(
                &[
                    ">other",
                    "<secret",
                    "off",
                    "on",
                    "nopass",
                    "resetpass",
                    "-@all",
                    "+@all",
                    ">secret",
                ],
                random,
            );
            case.admin(&format!("ACL SETUSER u {word}"), Alike::Same);
        }
        let line = of(LOGINS, random);
        let how = if line.starts_with("HELLO") { Alike::Refusal } else { Alike::Same };
        case.client(words(line), how);
    }
}
