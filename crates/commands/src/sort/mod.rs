//! SORT and SORT_RO: the elements of a list, a set or a sorted set, in another order, possibly by
//! or with the values of other keys.
//!
//! **Locks.** The names that BY and GET patterns produce depend on the elements, so their shards
//! are not known beforehand: a request with such a pattern holds all shards, as KEYS does, and its
//! answer shows one moment. One without holds the shards of its key and of the key after STORE
//! ([`reaches_beyond`]).
//!
//! **Order.** ALPHA compares bytes, whatever the machine's locale: the same data is sorted in the
//! same way wherever a pool or a log is opened. (Redis compares bytes for STORE, and by
//! `LC_COLLATE` for a reply.) Equal weights are ordered by the elements' bytes, except that with
//! ALPHA and BY the elements of a list, or of a sorted set, keep their order. So a SORT with STORE
//! that is replayed from the log stores the same.
//!
//! **Memory.** Elements are read in pieces. With LIMIT at most twice as many are kept as may be
//! shown ([`rows::Rows`]), so that the first ten of millions cost one visit of each; without it all
//! are kept, as in the reply.

mod options;
mod pattern;
mod read;
mod rows;

use keyspace::{Entry, Side, Txn, Type};
use smallvec::SmallVec;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, WRONG_TYPE};
use engine::notify::events::EventClass;
use engine::session::permissions::may_read_all_keys;
use engine::spec::*;
use options::SortOptions;
use read::Reader;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&SORT, &SORT_RO];

/// An element, or the value of a key for it; usually short.
type Bytes = SmallVec<[u8; 24]>;

const SOURCE: KeySpec = KeySpec::one(1, KEY_RO | KEY_ACCESS);
const PATTERNS: KeySpec = KeySpec::unknown(KEY_RO | KEY_ACCESS).notes(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
);
const TARGET: KeySpec = KeySpec::unknown(KEY_OW | KEY_UPDATE)
    .notes(
        "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
    )
    .located_by(options::target);

const ORDER: Arg = oneof("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional();
const LIMIT: Arg =
    block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional();
const BY: Arg = key_pattern("pattern", 1).token("BY").optional();
const GET: Arg = key_pattern("pattern", 1).token("GET").optional().multiple().multiple_token();
const ALPHA: Arg = token("sorting", "ALPHA").optional();

pub(crate) const SORT: CommandSpec = CommandSpec {
    name: "sort",
    summary: "Sort the elements in a list, set or sorted set",
    complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
    since: "1.0.0",
    group: Group::Generic,
    arity: -2,
    flags: WRITE | DENYOOM,
    acl: ACL_SET | ACL_SORTEDSET | ACL_LIST | ACL_DANGEROUS,
    keys: &[SOURCE, PATTERNS, TARGET],
    args: &[
        key("key", 0),
        BY,
        LIMIT,
        GET,
        ORDER,
        ALPHA,
        key("destination", 2).token("STORE").optional(),
    ],
    weigh: Some(weights::sorts),
    run: Run::KeysOrAll { needs_all: reaches_beyond, run: sort },
    ..CommandSpec::EMPTY
};

pub(crate) const SORT_RO: CommandSpec = CommandSpec {
    name: "sort_ro",
    summary: "Sort the elements in a list, set or sorted set. Read-only variant of SORT.",
    complexity: "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When the elements are not sorted, complexity is O(N).",
    since: "7.0.0",
    group: Group::Generic,
    arity: -2,
    flags: READONLY,
    acl: ACL_SET | ACL_SORTEDSET | ACL_LIST | ACL_DANGEROUS,
    keys: &[SOURCE, PATTERNS],
    args: &[key("key", 0), BY, LIMIT, GET, ORDER, ALPHA],
    weigh: Some(weights::sorts),
    run: Run::KeysOrAll { needs_all: reaches_beyond, run: sort_ro },
    ..CommandSpec::EMPTY
};

/// Returns true if a request looks up keys that it does not name. A malformed one looks up nothing.
fn reaches_beyond(args: &[&[u8]]) -> bool {
    SortOptions::parse(args, true, true).is_ok_and(|options| options.looks_up())
}

fn sort(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    answer(call, txn, parse(call, true)?)
}

fn sort_ro(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    answer(call, txn, parse(call, false)?)
}

/// Parses the arguments. Only users that may read every key may use patterns that look up keys.
fn parse<'a>(call: &Call<'a>, may_store: bool) -> Result<SortOptions<'a>, Failure> {
    let reads_all = may_read_all_keys(call.session, call.command, call.args);
    let options = SortOptions::parse(call.args, may_store, reads_all)?;
    match call.engine.cluster().is_on() && !call.session.replay {
        true => options.check_in_cluster().map(|()| options),
        false => Ok(options),
    }
}

fn answer(call: &mut Call<'_>, txn: &mut Txn<'_>, mut options: SortOptions<'_>) -> Done {
    let (source, stores, is_from_script) = (call.key(0), options.stores, call.is_from_script());
    let mut reader = Reader::new(call, txn, stores);
    let elements = match reader.find(&source)? {
        Some(entry) => {
            options.fit(kind(reader.txn, &entry)?, stores || is_from_script);
            read::elements(&mut reader, &source, entry, &options)?
        }
        None => Vec::new(),
    };
    if stores {
        let values = read::values(&mut reader, &options, elements)?;
        return store(call, txn, &values);
    }
    reply(call, reader, &options, &elements)
}

/// Returns the type of a value if it can be sorted.
fn kind(txn: &Txn<'_>, entry: &Entry) -> Result<Type, Failure> {
    match txn.properties(entry).value_type() {
        kind @ (Type::List | Type::Set | Type::SortedSet) => Ok(kind),
        _ => Err(WRONG_TYPE.into()),
    }
}

/// Replies with elements, or with the values of the GET patterns for each of them.
fn reply(
    call: &mut Call<'_>,
    mut reader: Reader<'_, '_>,
    options: &SortOptions<'_>,
    elements: &[Bytes],
) -> Done {
    call.out.array(elements.len() * options.gets.len().max(1));
    for element in elements {
        if options.gets.is_empty() {
            call.out.bulk(element);
        }
        for pattern in &options.gets {
            call.out.bulk_or_null(reader.look_up(pattern, element)?);
        }
    }
    Ok(())
}

/// Replaces the value of the key after STORE with a list of these, or deletes it if there are none.
fn store(call: &mut Call<'_>, txn: &mut Txn<'_>, values: &[Bytes]) -> Done {
    let (db, target, limits) = (call.db(), call.key(1), call.engine.config().list_limits());
    let was_there = match values.is_empty() {
        true => txn.keys().delete(db, &target)?,
        false => txn.keys().delete_to_overwrite(db, &target)?,
    };
    if !values.is_empty() {
        txn.lists().push(db, &target, Side::Tail, values.iter().map(|value| &value[..]), limits)?;
    }
    if was_there || !values.is_empty() {
        call.wrote();
        call.notify_stored(EventClass::List, "sortstore", &target, values.is_empty());
    }
    call.out.integer(values.len() as i64);
    Ok(())
}
