//! MIGRATE: sends keys to another server in the form that RESTORE takes, and deletes them here when
//! the other server has them.
//!
//! In Redis all clients wait meanwhile. Here the command runs on a thread of its own, while its
//! client waits as a blocked one does, and no key is locked while waiting for the other server.
//! Each key is watched from when it is read. When the other server has acknowledged it, it is
//! deleted in one transaction, unless it was changed since: then it is read and sent once more,
//! replacing what was sent before, or, if it is gone, deleted there. So no write that was
//! acknowledged here meanwhile is lost.
//!
//! Memory is bounded by a batch of keys, or by the largest value. Connections are not cached.

mod target;
pub(crate) mod transfer;

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;

/// Hides the names and passwords after AUTH and AUTH2.
fn redact(words: &mut [&[u8]]) {
    let is = |word: &[u8], text: &str| word.eq_ignore_ascii_case(text.as_bytes());
    // A key may have any name: the words after KEYS are no options.
    let end = words.iter().position(|word| is(word, "keys")).unwrap_or(words.len());
    for (word, count) in [("auth", 1), ("auth2", 2)] {
        if let Some(at) = words[..end].iter().skip(6).position(|option| is(option, word)) {
            words.iter_mut().skip(at + 7).take(count).for_each(|word| *word = REDACTED);
        }
    }
}

/// Returns the range of words that are keys: the third argument or, if that is empty, those after
/// KEYS, the first such word that is neither a password nor a user's name. The range is empty if
/// both are given, which is an error.
fn keys(args: &[&[u8]]) -> Range<usize> {
    let is = |at: usize, word: &str| args[at].eq_ignore_ascii_case(word.as_bytes());
    let mut at = 6;
    // An option that is the last word has no value.
    while at + 1 < args.len() {
        at += match () {
            () if is(at, "auth") => 2,
            () if is(at, "auth2") => 3,
            () if is(at, "keys") && !args[3].is_empty() => return 0..0,
            () if is(at, "keys") => return at + 1..args.len(),
            () => 1,
        };
    }
    if args.len() > 3 { 3..4 } else { 0..0 }
}

const COMPLEXITY: &str = "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.";

pub(crate) const MIGRATE: CommandSpec = CommandSpec {
    name: "migrate",
    summary: "Atomically transfer a key from a Redis instance to another one.",
    complexity: COMPLEXITY,
    since: "2.6.0",
    group: Group::Generic,
    arity: -6,
    flags: WRITE,
    traits: TAKES_LONG | OWN_THREAD | MOVES_KEYS,
    acl: ACL_KEYSPACE | ACL_DANGEROUS,
    tips: &["nondeterministic_output"],
    keys: &[
        KeySpec::one(3, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::new(
            Begin::Keyword("KEYS", -2),
            Find::Range { last: -1, step: 1, limit: 0 },
            KEY_RW | KEY_ACCESS | KEY_DELETE | KEY_INCOMPLETE,
        ),
    ],
    own_keys: Some(keys),
    redact: Some(redact),
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    args: &[
        string("host"),
        integer("port"),
        oneof("key_or_empty_string", &[key("key", 0), token("empty_string", "")]),
        integer("destination-db"),
        integer("timeout"),
        token("copy", "COPY").since("3.0.0").optional(),
        token("replace", "REPLACE").since("3.0.0").optional(),
        oneof(
            "authentication",
            &[
                string("password").token("AUTH").since("4.0.7").optional(),
                block("username_password", &[string("username"), string("password")])
                    .token("AUTH2")
                    .since("6.0.0")
                    .optional(),
            ],
        )
        .optional(),
        key("key", 1).token("KEYS").since("3.0.6").optional().multiple(),
    ],
    run: Run::Session(migrate),
    ..CommandSpec::EMPTY
};

const NOT_WITHIN: &str =
    "ERR MIGRATE waits for another server, and is not allowed in a transaction or a script";
const KEY_AND_KEYS: &str =
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";

/// The timeout in milliseconds, if none is given.
const DEFAULT_TIMEOUT: i64 = 1000;

/// The arguments of the command.
struct Migration<'a> {
    host: &'a [u8],
    port: &'a [u8],
    db: i64,
    timeout: Duration,
    copy: bool,
    replace: bool,
    /// The arguments of AUTH.
    auth: Vec<&'a [u8]>,
    /// The keys, without duplicates.
    keys: Vec<&'a [u8]>,
}

fn parse<'a>(call: &Call<'a>) -> Result<Migration<'a>, Failure> {
    let args = call.args;
    let mut parsed = Migration {
        host: args[1],
        port: args[2],
        db: 0,
        timeout: Duration::ZERO,
        copy: false,
        replace: false,
        auth: Vec::new(),
        keys: vec![args[3]],
    };
    let mut at = 6;
    while at < args.len() {
        if call.is(at, "copy") {
            parsed.copy = true;
        } else if call.is(at, "replace") {
            parsed.replace = true;
        } else if call.is(at, "auth") || call.is(at, "auth2") {
            let words = if call.is(at, "auth") { 1 } else { 2 };
            let given = args.get(at + 1..at + 1 + words).ok_or(SYNTAX)?;
            parsed.auth = [&[&b"AUTH"[..]], given].concat();
            at += words;
        } else if call.is(at, "keys") {
            if !args[3].is_empty() {
                return Err(KEY_AND_KEYS.into());
            }
            parsed.keys = args[at + 1..].to_vec();
            break;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let mut seen = HashSet::new();
    parsed.keys.retain(|key| seen.insert(*key));
    let timeout = call.int(5)?;
    parsed.db = call.int(4)?;
    let timeout = if timeout <= 0 { DEFAULT_TIMEOUT } else { timeout };
    parsed.timeout = Duration::from_millis(timeout.unsigned_abs());
    Ok(parsed)
}

fn migrate(call: &mut Call<'_>) -> Done {
    if call.is_inner() {
        return Err(NOT_WITHIN.into());
    }
    let migration = parse(call)?;
    // If the command gave way to another client that has a shard, it would start over and send
    // again what it has sent.
    let gives_way = std::mem::replace(&mut call.session.gives_way, false);
    let done = transfer::run(call, &migration);
    call.session.gives_way = gives_way;
    done
}
