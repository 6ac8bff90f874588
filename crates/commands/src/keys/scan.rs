//! SCAN and RANDOMKEY: keys that the client does not name.
//!
//! A SCAN locks one shard after the other, until it has visited as many keys as asked for; the
//! cursor encodes the shard in which it continues. RANDOMKEY sees all shards at one moment.

use engine::call::{Call, Run};
use engine::execute::Scope;
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{Db, Entry, Keyspace, Txn, Type};
use resp::Writer;
use resp::glob::Pattern;

use crate::names::type_name;

pub(crate) const SCAN: CommandSpec = CommandSpec {
    name: "scan",
    summary: "Incrementally iterate the keys space",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
    since: "2.8.0",
    group: Group::Generic,
    arity: -2,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output", "request_policy:special"],
    history: &[("6.0.0", "Added the `TYPE` subcommand.")],
    args: &[
        integer("cursor"),
        pattern("pattern").token("MATCH").optional(),
        integer("count").token("COUNT").optional(),
        string("type").token("TYPE").since("6.0.0").optional(),
    ],
    weigh: Some(weights::reads_some),
    run: Run::OwnLocks { run: alone, within },
    ..CommandSpec::EMPTY
};

/// The options of SCAN and its variants for one key.
pub(crate) struct Options<'a> {
    pub(crate) pattern: Option<Pattern<'a>>,
    pub(crate) count: usize,
    kind: Option<&'a [u8]>,
    /// Returns fields without their values (HSCAN).
    pub(crate) no_values: bool,
}

impl<'a> Options<'a> {
    /// Returns true if the name matches the pattern, or there is no pattern.
    pub(crate) fn fits(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    fn wants(&self, key: &[u8], kind: Type) -> bool {
        self.fits(key)
            && self.kind.is_none_or(|name| name.eq_ignore_ascii_case(type_name(kind).as_bytes()))
    }
}

/// A SCAN that passes through the shards.
struct Walk<'a> {
    options: Options<'a>,
    /// The cursor at its start.
    from: u64,
    /// The cursor where it continues.
    cursor: u64,
    /// The number of keys that it may still visit.
    left: usize,
    found: Vec<Vec<u8>>,
}

impl<'a> Walk<'a> {
    fn of(call: &Call<'a>) -> Result<Walk<'a>, Failure> {
        let cursor = cursor(call.args[1]).ok_or("ERR invalid cursor")?;
        let options = parse(call, 2)?;
        let left = options.count;
        Ok(Walk { options, from: cursor, cursor, left, found: Vec::new() })
    }

    /// Continues in the shard of the cursor. Returns true if it may continue in the next one.
    fn step(&mut self, db: Db, txn: &Txn<'_>) -> bool {
        let mut visited = 0;
        self.cursor = txn.database(db).scan(self.cursor, self.left, &mut |key, entry: &Entry| {
            visited += 1;
            if self.options.wants(key, txn.properties(entry).value_type()) {
                self.found.push(key.to_vec());
            }
        });
        self.left = self.left.saturating_sub(visited);
        self.left > 0 && self.cursor != 0 && Keyspace::begins_shard(self.cursor)
    }

    fn reply(&self, out: &mut Writer) {
        out.array(2);
        out.bulk(itoa::Buffer::new().format(self.cursor));
        out.array(self.found.len());
        self.found.iter().for_each(|key| out.bulk(key));
    }
}

/// Executes SCAN by itself. No more than one shard is locked at any time.
fn alone(call: &mut Call<'_>) -> Done {
    let (engine, db) = (call.engine, call.db());
    let keyspace = engine.keyspace();
    let mut walk = Walk::of(call)?;
    let (mut goes_on, mut reply_after) = (true, 0);
    while goes_on {
        let shard = keyspace.scan_shard(walk.cursor);
        let from = walk.cursor;
        let done = engine.transact(call, Scope::Shard(shard), |_, txn| {
            goes_on = walk.step(db, txn);
            Ok(())
        });
        match done {
            // Another client has locked the shard: reply with the keys found so far.
            Err(failure) if failure.wanted_shards().is_some() && from != walk.from => break,
            done => done?,
        }
        reply_after = call.reply_after.max(reply_after);
    }
    call.reply_after = reply_after;
    walk.reply(call.out);
    Ok(())
}

/// Executes SCAN as a part of a transaction that has locked all shards.
fn within(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let mut walk = Walk::of(call)?;
    while walk.step(call.db(), txn) {}
    walk.reply(call.out);
    Ok(())
}

/// Parses a client's cursor as C's `strtoul` does with a text that it reads to its end; an empty
/// text is 0.
pub(crate) fn cursor(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let (is_negated, digits) = match text {
        [sign @ (b'-' | b'+'), digits @ ..] => (*sign == b'-', digits),
        digits => (false, digits),
    };
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    let number: u64 = digits.parse().ok()?;
    Some(if is_negated { number.wrapping_neg() } else { number })
}

/// Parses the options from this argument on. Only SCAN itself knows TYPE, and only HSCAN NOVALUES.
pub(crate) fn parse<'a>(call: &Call<'a>, from: usize) -> Result<Options<'a>, Failure> {
    const COUNT: usize = 10;
    let mut options = Options { pattern: None, count: COUNT, kind: None, no_values: false };
    let mut at = from;
    while at < call.args.len() {
        if call.is(at, "NOVALUES") {
            if call.command.spec.name != "hscan" {
                return Err("ERR NOVALUES option can only be used in HSCAN".into());
            }
            options.no_values = true;
            at += 1;
            continue;
        }
        let value = call.arg(at + 1)?;
        if call.is(at, "COUNT") {
            let count = call.int(at + 1)?;
            options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(SYNTAX)?;
        } else if call.is(at, "MATCH") {
            options.pattern = (value != b"*").then(|| Pattern::new(value));
        } else if call.is(at, "TYPE") && call.keys.is_empty() {
            options.kind = Some(value);
        } else {
            return Err(SYNTAX.into());
        }
        at += 2;
    }
    Ok(options)
}

pub(crate) const RANDOMKEY: CommandSpec = CommandSpec {
    name: "randomkey",
    summary: "Return a random key from the keyspace",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 1,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    run: Run::All(randomkey),
    ..CommandSpec::EMPTY
};

fn randomkey(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let session = &mut *call.session;
    let key = txn.database(session.db).random_key(&mut || session.random.u64(..));
    call.out.bulk_or_null(key.as_deref());
    Ok(())
}
