//! Filters that select the clients which CLIENT KILL ends and CLIENT LIST shows: those of Redis,
//! and those of Valkey 8.1 and 9.
//!
//! A client must pass all given filters. Each but SKIPME, MAXAGE and IDLE has a negative form
//! (`NOT-NAME`). If a filter is given twice the last one counts, except that IDs add up.

use std::mem::discriminant;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use engine::Engine;
use engine::call::Call;
use engine::failure::{Failure, SYNTAX};
use engine::session::client::Client;
use engine::session::describe::flags;
use engine::spec::*;

/// The filters, for the documentation.
pub(super) const FILTERS: &[Arg] = &[
    integer("client-id").token("ID").since("2.8.12").optional().multiple(),
    TYPES.token("TYPE").since("2.8.12").optional(),
    string("username").token("USER").optional(),
    string("ip:port").token("ADDR").optional(),
    string("ip:port").token("LADDR").since("6.2.0").optional(),
    string("yes/no").token("SKIPME").optional(),
    integer("maxage").token("MAXAGE").since("7.4.0").optional(),
    string("name").token("NAME").since("9.0.0").optional(),
    integer("idle").token("IDLE").since("9.0.0").optional(),
    string("flags").token("FLAGS").since("9.0.0").optional(),
    string("lib-name").token("LIB-NAME").since("9.0.0").optional(),
    string("lib-ver").token("LIB-VER").since("9.0.0").optional(),
    integer("db").token("DB").since("9.0.0").optional(),
    string("capa").token("CAPA").since("9.0.0").optional(),
    string("ip").token("IP").since("9.0.0").optional(),
    integer("not-client-id").token("NOT-ID").since("9.0.0").optional().multiple(),
    TYPES.token("NOT-TYPE").since("9.0.0").optional(),
    string("not-username").token("NOT-USER").since("9.0.0").optional(),
    string("not-addr").token("NOT-ADDR").since("9.0.0").optional(),
    string("not-laddr").token("NOT-LADDR").since("9.0.0").optional(),
    string("not-name").token("NOT-NAME").since("9.0.0").optional(),
    string("not-flags").token("NOT-FLAGS").since("9.0.0").optional(),
    string("not-lib-name").token("NOT-LIB-NAME").since("9.0.0").optional(),
    string("not-lib-ver").token("NOT-LIB-VER").since("9.0.0").optional(),
    integer("not-db").token("NOT-DB").since("9.0.0").optional(),
    string("not-capa").token("NOT-CAPA").since("9.0.0").optional(),
    string("not-ip").token("NOT-IP").since("9.0.0").optional(),
];

const TYPES: Arg = oneof(
    "normal_master_slave_pubsub",
    &[
        token("normal", "NORMAL"),
        token("master", "MASTER").since("3.2.0"),
        token("slave", "SLAVE"),
        token("replica", "REPLICA").since("5.0.0"),
        token("pubsub", "PUBSUB"),
    ],
);

/// The letters that FLAGS accepts: those of CLIENT LIST in Valkey.
const FLAGS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";

/// The types of clients that can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Normal,
    Master,
    Replica,
    Pubsub,
}

impl Type {
    /// Returns a client's type.
    pub(super) fn of(client: &Client) -> Type {
        match () {
            () if client.is_primary.load(Relaxed) => Type::Master,
            () if client.is_replica.load(Relaxed) => Type::Replica,
            () if client.is_subscribed() => Type::Pubsub,
            () => Type::Normal,
        }
    }

    /// Returns the type of this name, or Redis's error.
    pub(super) fn named(word: &[u8]) -> Result<Type, Failure> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Type::Normal),
            b"master" | b"primary" => Ok(Type::Master),
            b"slave" | b"replica" => Ok(Type::Replica),
            b"pubsub" => Ok(Type::Pubsub),
            _ => Err(with_word("Unknown client type '", word, "'")),
        }
    }
}

fn with_word(before: &str, word: &[u8], after: &str) -> Failure {
    Failure::text(format!("ERR {before}{}{after}", String::from_utf8_lossy(word)))
}

/// One condition on a client.
#[derive(Debug)]
enum Test {
    Id(Vec<u64>),
    Type(Type),
    Addr(Vec<u8>),
    Laddr(Vec<u8>),
    Ip(Vec<u8>),
    User(Vec<u8>),
    Name(Vec<u8>),
    LibName(Vec<u8>),
    LibVersion(Vec<u8>),
    Flags(Vec<u8>),
    Db(u32),
    Capabilities(Vec<u8>),
    /// It connected at this time (unix ms) or before.
    CameBy(u64),
    /// Its last command began at this time (unix ms) or before.
    SilentSince(u64),
}

impl Test {
    fn holds(&self, client: &Client) -> bool {
        match self {
            Test::Id(ids) => ids.contains(&client.id),
            Test::Type(kind) => *kind == Type::of(client),
            Test::Addr(addr) => addr == client.peer.addr.as_bytes(),
            Test::Laddr(addr) => addr == client.peer.laddr.as_bytes(),
            Test::Ip(ip) => is_from(&client.peer.addr, ip),
            Test::User(name) => *name == client.user_name(),
            Test::Name(name) => is_text(&client.name, name),
            Test::LibName(name) => is_text(&client.lib_name, name),
            Test::LibVersion(version) => is_text(&client.lib_version, version),
            Test::Flags(wanted) => {
                let has = flags(client);
                wanted.iter().all(|flag| has.as_bytes().contains(flag))
            }
            Test::Db(number) => client.db.load(Relaxed) == *number,
            Test::Capabilities(wanted) => wanted.is_empty() || client.redirects.load(Relaxed),
            Test::CameBy(latest) => client.since_ms <= *latest,
            Test::SilentSince(latest) => client.seen_ms.load(Relaxed) <= *latest,
        }
    }
}

/// Returns true if the text is set, and equal to `wanted`.
fn is_text(set: &Mutex<Vec<u8>>, wanted: &[u8]) -> bool {
    let set = set.lock().unwrap_or_else(PoisonError::into_inner);
    !set.is_empty() && *set == wanted
}

/// Returns true if an address, `ip:port` or `[ip]:port`, has this IP. Unix sockets have the port 0
/// and no IP.
fn is_from(addr: &str, ip: &[u8]) -> bool {
    let Some((host, port)) = addr.rsplit_once(':') else { return false };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    port != "0" && host.as_bytes() == ip
}

/// Selects the clients that pass all tests.
#[derive(Default)]
pub(super) struct Filter {
    skip: Option<u64>,
    /// The tests; the flag says that the test must fail.
    tests: Vec<(Test, bool)>,
}

impl Filter {
    /// Returns a filter for the clients of one address, the caller's own included.
    pub(super) fn of_addr(addr: &[u8]) -> Filter {
        Filter { skip: None, tests: vec![(Test::Addr(addr.to_vec()), false)] }
    }

    /// Reads the filters of a command, from its third word on. `skips_own` is the default of
    /// SKIPME.
    pub(super) fn read(call: &Call<'_>, skips_own: bool) -> Result<Filter, Failure> {
        let own = call.session.id();
        let mut filter = Filter { skip: Some(own).filter(|_| skips_own), tests: Vec::new() };
        let mut at = 2;
        while at < call.args.len() {
            let value = *call.args.get(at + 1).ok_or(SYNTAX)?;
            let word = call.args[at].to_ascii_lowercase();
            if word == b"skipme" {
                filter.skip = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => Some(own),
                    b"no" => None,
                    _ => return Err(SYNTAX.into()),
                };
            } else if let Some(name) = word.strip_prefix(b"not-") {
                let test = match name {
                    b"maxage" | b"idle" => return Err(SYNTAX.into()),
                    name => test(call, name, at + 1, "NOT-")?,
                };
                at += filter.add(test, true);
            } else {
                at += filter.add(test(call, &word, at + 1, "")?, false);
            }
            at += 2;
        }
        Ok(filter)
    }

    /// Adds a test, and returns the number of words that its value has beyond the first.
    fn add(&mut self, test: Test, is_negated: bool) -> usize {
        let more = if let Test::Id(ids) = &test { ids.len() - 1 } else { 0 };
        let is_same = |known: &&mut (Test, bool)| {
            discriminant(&known.0) == discriminant(&test) && known.1 == is_negated
        };
        match (self.tests.iter_mut().find(is_same), test) {
            (Some((Test::Id(ids), _)), Test::Id(more)) => ids.extend(more),
            (Some((known, _)), test) => *known = test,
            (None, test) => self.tests.push((test, is_negated)),
        }
        more
    }

    fn admits(&self, client: &Client) -> bool {
        self.skip != Some(client.id)
            && self.tests.iter().all(|(test, is_negated)| test.holds(client) != *is_negated)
    }

    /// Returns the clients that pass the filter.
    pub(super) fn find(&self, engine: &Engine) -> Vec<Arc<Client>> {
        let mut found = engine.clients().list();
        found.retain(|client| self.admits(client));
        found
    }
}

/// Returns the test that `name` and the value at `at` describe. Errors prefix the name with `not`.
fn test(call: &Call<'_>, name: &[u8], at: usize, not: &str) -> Result<Test, Failure> {
    let value = call.args[at];
    Ok(match name {
        b"id" => Test::Id(ids(call, at)?),
        b"type" => Test::Type(Type::named(value)?),
        b"addr" => Test::Addr(value.to_vec()),
        b"laddr" => Test::Laddr(value.to_vec()),
        b"ip" => Test::Ip(value.to_vec()),
        b"name" => Test::Name(value.to_vec()),
        b"lib-name" => Test::LibName(value.to_vec()),
        b"lib-ver" => Test::LibVersion(value.to_vec()),
        b"maxage" => Test::CameBy(ago(call, at, "maxage")?),
        b"idle" => Test::SilentSince(ago(call, at, "idle")?),
        b"db" => Test::Db(db(call, at, not)?),
        b"user" => match call.engine.users().get(value) {
            Some(_) => Test::User(value.to_vec()),
            None => return Err(with_word("No such user '", value, "'")),
        },
        b"flags" => Test::Flags(letters(value, FLAGS, "flags", not)?),
        b"capa" => Test::Capabilities(letters(value, b"r", "capa", not)?),
        _ => return Err(SYNTAX.into()),
    })
}

/// Returns the IDs from `at` on, at least one.
fn ids(call: &Call<'_>, at: usize) -> Result<Vec<u64>, Failure> {
    let numbers = call.args[at..].iter().map_while(|word| resp::number::parse_i64(word));
    let ids: Option<Vec<u64>> =
        numbers.map(|id| u64::try_from(id).ok().filter(|id| *id > 0)).collect();
    let ids = ids.filter(|ids| !ids.is_empty());
    ids.ok_or_else(|| "ERR client-id should be greater than 0".into())
}

/// Returns the time, in unix ms, that was as many seconds ago as the argument says.
fn ago(call: &Call<'_>, at: usize, name: &str) -> Result<u64, Failure> {
    let seconds = call.int(at);
    let seconds = seconds
        .map_err(|_| Failure::text(format!("ERR {name} is not an integer or out of range")))?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
    let seconds =
        seconds.ok_or_else(|| Failure::text(format!("ERR {name} should be greater than 0")))?;
    Ok(call.now_ms().saturating_sub(seconds.saturating_mul(1000)))
}

fn db(call: &Call<'_>, at: usize, not: &str) -> Result<u32, Failure> {
    let number = call.int(at).ok().and_then(|number| i32::try_from(number).ok());
    let number = number
        .ok_or_else(|| Failure::text(format!("ERR {not}DB is not an integer or out of range")))?;
    let databases = call.engine.config().databases();
    let number = u32::try_from(number).ok().filter(|number| (*number as usize) < databases);
    number.ok_or_else(|| {
        let last = databases.saturating_sub(1);
        Failure::text(format!("ERR {not}DB number should be between 0 and {last}"))
    })
}

fn letters(value: &[u8], known: &[u8], name: &str, not: &str) -> Result<Vec<u8>, Failure> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(value.to_vec());
    }
    let filter = match not {
        "" => "provided".to_owned(),
        not => format!("{not}{}", name.to_uppercase()),
    };
    Err(with_word(&format!("Unknown {name} found in the {filter} filter: "), value, ""))
}
