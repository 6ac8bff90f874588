//! ACL: users' rights, by rules, for each command, key, kind of access and channel.
//!
//! [`rules`] makes rules, and [`requests`] the commands that they are about, both from the command
//! table; [`access`] tests effects of arguments, [`history`] effects of several words or denials,
//! [`nearly`] words that are nearly right, and [`by_default`] the user that nobody has to name;
//! [`moments`] changes users between a command and its effect. A case gives a user rules, reads
//! them back, and compares DRYRUN, the command itself and the log.

mod access;
mod by_default;
mod history;
mod moments;
mod nearly;
mod requests;
mod rules;

use crate::steps::{ADMIN, Act, Alike, CLIENT, Case, Words, with, words};
use commands::Engine;
use fastrand::Rng;
use requests::Requests;
use testkit::Reply;

/// The requests that each case begins with.
const SETUP: &[&str] = &[
    "ACL DELUSER u v w x",
    "FLUSHALL",
    "CONFIG SET requirepass ",
    "CONFIG SET acl-pubsub-default resetchannels",
    "CONFIG SET acllog-max-len 128",
    "ACL LOG RESET",
];

/// Makes cases.
pub(crate) struct Generator {
    requests: Requests,
}

impl Generator {
    /// `peer` is the list of redis-server's commands.
    pub(crate) fn new(engine: &Engine, peer: &[String]) -> Generator {
        Generator { requests: Requests::new(engine, peer) }
    }

    /// The case of a seed.
    pub(crate) fn case(&self, seed: u64) -> Case {
        let mut random = Rng::with_seed(seed);
        let mut case = Case::new(if random.bool() { 2 } else { 3 }, SETUP);
        match random.u8(..28) {
            0..8 => self.rules(&mut case, &mut random),
            8..14 => moments::add(&mut case, &self.requests, &mut random),
            14..18 => access::add(&mut case, &mut random),
            18..22 => history::add(&mut case, &mut random),
            22..25 => nearly::add(&mut case, &mut random),
            25..27 => by_default::add(&mut case, &mut random),
            _ => categories(&mut case, &mut random),
        }
        case
    }

    /// Tests a user with rules.
    fn rules(&self, case: &mut Case, random: &mut Rng) {
        if random.u8(..4) == 0 {
            case.admin("CONFIG SET acl-pubsub-default allchannels", Alike::Same);
        }
        let about = self.requests.some(random);
        for _ in 0..random.usize(1..4) {
            set_user(case, &rules::words(&about, random));
        }
        case.admin("ACL GETUSER u", Alike::Rules);
        case.admin("ACL LIST", Alike::Rules);
        case.add(ADMIN, Act::Exchange(words("ACL LIST"), copied), Alike::Same);
        case.admin("ACL GETUSER w", Alike::Rules);
        case.client(words("AUTH u secret"), Alike::Same);
        case.admin("ACL SETUSER u on nopass", Alike::Same);
        case.client(words("AUTH u x"), Alike::Same);
        for _ in 0..12 {
            let request = about.request(random);
            let tried = ["u", "w"][random.usize(..2)];
            let line = format!("ACL DRYRUN {tried}");
            case.add(ADMIN, Act::Call(prefixed(&line, &request)), Alike::Same);
            if about.is_harmless(&request) {
                case.client(request, Alike::Refusal);
            }
        }
        for line in ["ACL LOG", "ACL LOG 1", "ACL LOG 0", "ACL LOG -1", "ACL LOG 200"] {
            case.admin(line, Alike::Log);
        }
        case.admin("ACL USERS", Alike::Unordered);
        case.client(words("ACL WHOAMI"), Alike::Refusal);
    }
}

/// Returns a request with the words of a line before it.
fn prefixed(line: &str, request: &Words) -> Words {
    let request: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    with(line, &request)
}

fn set_user(case: &mut Case, rules: &[String]) {
    let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
    case.add(ADMIN, Act::Call(with("ACL SETUSER u", &rules)), Alike::Same);
}

/// Returns the command that gives the user `w` the rules that LIST shows of `u`.
fn copied(list: &Reply) -> Option<Words> {
    let lines: Vec<String> = list.items().iter().map(Reply::text).collect();
    let rules = lines.iter().find_map(|line| line.strip_prefix("user u "))?;
    Some(words(&format!("ACL SETUSER w reset {rules}")))
}

/// Tests the content of a category, for a user that may execute nothing else.
fn categories(case: &mut Case, random: &mut Rng) {
    case.admin("ACL CAT", Alike::Same);
    let name = rules::CATEGORIES[random.usize(..rules::CATEGORIES.len())];
    case.admin(&format!("ACL SETUSER u on nopass ~* +@{name}"), Alike::Same);
    case.admin("ACL GETUSER u", Alike::Rules);
    case.admin(&format!("ACL SETUSER u +@all -@{name}"), Alike::Same);
    case.admin("ACL GETUSER u", Alike::Rules);
    case.admin(&format!("ACL CAT {name}"), Alike::Known);
    case.add(CLIENT, Act::Call(words("ACL CAT nothing")), Alike::Same);
    case.admin("ACL GENPASS 4097", Alike::Same);
    case.admin("ACL LOG x", Alike::Same);
    case.admin("ACL DELUSER default", Alike::Same);
    case.admin("ACL DRYRUN nobody get", Alike::Same);
    case.admin("ACL DRYRUN nobody get a", Alike::Same);
}
