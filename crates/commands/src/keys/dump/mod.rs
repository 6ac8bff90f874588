//! DUMP and RESTORE: a value in Redis's serialized form, and back.
//!
//! DUMP answers what redis-server 7.0 answers, in the order of elements of the table here. A hash
//! with field TTLs is dumped as Redis 7.4 does, since 7.0 has no form for it. RESTORE accepts the
//! payloads of all versions up to Redis 8 and Valkey 9 (`docs/format/rdb.md`); each is validated as
//! Redis does with `sanitize-dump-payload yes`.
//!
//! A value is stored in batches, all in one transaction: an error on the way leaves the old value.

mod read;
pub(crate) mod store;

use std::sync::atomic::Ordering::Relaxed;

use keyspace::{Keyspace, Txn};
use rdb::{Error, payload};

pub(super) use read::payload as payload_of;

use self::store::Stopped;
use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;

const DUMP_COMPLEXITY: &str = "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).";
const RESTORE_COMPLEXITY: &str = "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of Redis objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).";

/// The error if the key exists, and may not be replaced.
const BUSY_KEY: &str = "BUSYKEY Target key name already exists.";
/// The error for a payload that no known version of Redis has made.
const BAD_FOOTER: &str = "ERR DUMP payload version or checksum are wrong";
/// The error for a payload whose value contradicts itself.
const BAD_DATA: &str = "ERR Bad data format";

pub(crate) const DUMP: CommandSpec = CommandSpec {
    name: "dump",
    summary: "Return a serialized version of the value stored at the specified key.",
    complexity: DUMP_COMPLEXITY,
    since: "2.6.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    weigh: Some(weights::dumps),
    run: Run::Keys(dump),
    ..CommandSpec::EMPTY
};

pub(crate) const RESTORE: CommandSpec = CommandSpec {
    name: "restore",
    summary: "Create a key using the provided serialized value, previously obtained using DUMP.",
    complexity: RESTORE_COMPLEXITY,
    since: "2.6.0",
    group: Group::Generic,
    arity: -4,
    flags: WRITE | DENYOOM,
    acl: ACL_KEYSPACE | ACL_DANGEROUS,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE)],
    history: &[
        ("3.0.0", "Added the `REPLACE` modifier."),
        ("5.0.0", "Added the `ABSTTL` modifier."),
        ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
    ],
    args: &[
        key("key", 0),
        integer("ttl"),
        string("serialized-value"),
        token("replace", "REPLACE").since("3.0.0").optional(),
        token("absttl", "ABSTTL").since("5.0.0").optional(),
        integer("seconds").token("IDLETIME").since("5.0.0").optional(),
        integer("frequency").token("FREQ").since("5.0.0").optional(),
    ],
    weigh: Some(weights::restores),
    run: Run::Keys(restore),
    ..CommandSpec::EMPTY
};

pub(crate) const RESTORE_ASKING: CommandSpec = CommandSpec {
    name: "restore-asking",
    summary: "An internal command for migrating keys in a cluster",
    since: "3.0.0",
    group: Group::Server,
    flags: WRITE | DENYOOM | ASKING,
    doc_flags: &["syscmd"],
    ..RESTORE
};

fn dump(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    match txn.find(call.db(), &call.key(0)) {
        Some(entry) => call.out.bulk(read::payload(call.engine.config(), txn, &entry)?),
        None => call.out.null(),
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle: Option<u64>,
    frequency: Option<u8>,
}

fn parse(call: &Call<'_>) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut at = 4;
    while at < call.args.len() {
        let has_value = at + 1 < call.args.len();
        if call.is(at, "REPLACE") {
            options.replace = true;
        } else if call.is(at, "ABSTTL") {
            options.absolute = true;
        } else if call.is(at, "IDLETIME") && has_value && options.frequency.is_none() {
            at += 1;
            let idle = u64::try_from(call.int(at)?);
            options.idle = Some(idle.map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?);
        } else if call.is(at, "FREQ") && has_value && options.idle.is_none() {
            at += 1;
            let invalid = "ERR Invalid FREQ value, must be >= 0 and <= 255";
            options.frequency = Some(u8::try_from(call.int(at)?).map_err(|_| invalid)?);
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok(options)
}

/// Returns when the key expires, in unix ms; 0 for never.
fn expiry(call: &Call<'_>, options: Options) -> Result<u64, Failure> {
    let ttl = call.int(2)?;
    let ttl = u64::try_from(ttl).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
    if ttl == 0 || options.absolute {
        return Ok(ttl);
    }
    Ok(ttl.saturating_add(call.now_ms()).min(i64::MAX as u64))
}

fn restore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = parse(call)?;
    let (db, key) = (call.db(), call.key(0));
    if !options.replace && txn.find_mut(db, &key)?.is_some() {
        return Err(BUSY_KEY.into());
    }
    let expiry = expiry(call, options)?;
    let verifies = !call.engine.config().skips_checksums();
    let opened = payload::open_verified(call.args[3], Keyspace::MAX_STRING as u64, verifies);
    let (kind, mut source) = opened.map_err(|error| match payload::is_refused(&error) {
        true => BAD_FOOTER,
        false => BAD_DATA,
    })?;
    if expiry != 0 && expiry <= call.now_ms() {
        let read = rdb::read_value(&mut source, kind, |_| Ok::<_, Error>(()));
        read.map_err(|error| refused(call, Stopped::Read(error)))?;
        return expired(call, txn, options);
    }
    let was_there = options.replace && txn.keys().delete(db, &key)?;
    let expires = (expiry != 0).then_some(expiry);
    let stored = store::store(call, txn, kind, source, expires);
    let stored = stored.map_err(|stopped| refused(call, stopped))?;
    if !stored.is_there {
        // All fields of the hash had expired.
        return if was_there { gone(call) } else { done(call) };
    }
    if expires.is_some() {
        txn.keys().set_expiry(db, &key, expires)?;
    }
    if let Some(idle) = options.idle {
        txn.keys().set_idle(db, &key, idle.saturating_mul(1000));
    }
    if let Some(frequency) = options.frequency {
        txn.keys().set_frequency(db, &key, frequency);
    }
    log(call, expiry, options);
    log_expired(call, &stored.expired);
    call.notify(EventClass::Generic, "restore", &key);
    done(call)
}

/// Returns the error for a payload that cannot be read or stored, and logs the reason, which the
/// reply does not contain, at most once a second.
fn refused(call: &Call<'_>, stopped: Stopped) -> Failure {
    let (failure, why) = match stopped {
        Stopped::Read(error) => (BAD_DATA.into(), error.to_string()),
        Stopped::Store(failure) if failure.as_bytes() == BAD_DATA.as_bytes() => {
            (failure, "integrity check failed: a listpack with dup elements, or a table".to_owned())
        }
        Stopped::Store(failure) => return failure,
    };
    let (now, last) = (call.now_ms() / 1000, &call.engine.last_bad_payload);
    if last.swap(now, Relaxed) != now
        && let Some(host) = call.engine.host()
    {
        host.log(&format!("Internal error in RDB reading, by RESTORE: {why}."));
    }
    failure
}

fn done(call: &mut Call<'_>) -> Done {
    call.out.ok();
    Ok(())
}

/// Deletes the old value if it may be replaced; the new one has expired already and is not stored.
fn expired(call: &mut Call<'_>, txn: &mut Txn<'_>, options: Options) -> Done {
    if options.replace && txn.keys().delete(call.db(), &call.key(0))? {
        return gone(call);
    }
    done(call)
}

fn gone(call: &mut Call<'_>) -> Done {
    let key = call.args[1];
    call.wrote_as(&[b"DEL", key]);
    call.notify(EventClass::Generic, "del", &call.key(0));
    done(call)
}

/// Logs the command with an absolute expiry time.
fn log(call: &mut Call<'_>, expiry: u64, options: Options) {
    if expiry == 0 || options.absolute {
        return call.wrote();
    }
    let at = itoa::Buffer::new().format(expiry).to_owned();
    let mut words = call.args.to_vec();
    words[2] = at.as_bytes();
    words.push(b"ABSTTL");
    call.wrote_as(&words);
}

/// Fields that one HDEL names.
const FIELDS_OF_HDEL: usize = 1024;

/// Logs that fields of the payload have expired: a replay, for which nothing expires, stores them.
fn log_expired(call: &mut Call<'_>, fields: &[Vec<u8>]) {
    let key = call.args[1];
    for some in fields.chunks(FIELDS_OF_HDEL) {
        let words = [&b"HDEL"[..], key].into_iter().chain(some.iter().map(Vec::as_slice));
        call.wrote_as(&words.collect::<Vec<_>>());
    }
}
